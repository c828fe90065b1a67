//! Which file of a crate imports which, read from its sources.
//!
//! A file imports another when it names an item that the other defines, in a `use` or by a path in its code,
//! macros and attributes included. `pub use` hands a name on and is no import: whoever names what was handed on
//! imports the file that defines it. Neither is `mod x;`, nor the name of a module alone: what is named inside
//! the module is. Code under `#[cfg(test)]` is left out. A method called on a value names no file: what a type
//! does through its own methods, wherever they are written, is not seen.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, Macro, Meta, Path, UseTree, Visibility};

/// The texts of a crate's files, by their path below its `src`.
pub type Files = BTreeMap<String, String>;

/// One file names an item of another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    pub from: String,
    pub to: String,
    pub item: String,
}

/// What a `use` makes known inside a module: a path by a name, or everything below the path.
struct Binding {
    name: Option<String>,
    path: Vec<String>,
}

struct Module {
    file: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    bindings: Vec<Binding>,
    code: Vec<Item>,
}

/// What a path leads to.
#[derive(Clone)]
enum Meaning {
    Module(usize),
    Item {
        file: String,
        name: String,
    },
    /// Nothing of this crate.
    Foreign,
}

struct Tree {
    modules: Vec<Module>,
}

/// The imports among the files of a crate whose root is `lib.rs` or `main.rs`.
pub fn imports(files: &Files) -> BTreeSet<Import> {
    let root = ["lib.rs", "main.rs"].into_iter().find(|name| files.contains_key(*name));
    let root = root.expect("a crate has a lib.rs or a main.rs");
    let mut tree = Tree { modules: vec![] };
    tree.add_file(files, root, "", 0);
    let mut found = BTreeSet::new();
    for (module, of) in tree.modules.iter().enumerate() {
        let mut names = Names { tree: &tree, module, found: &mut found };
        of.code.iter().for_each(|item| names.visit_item(item));
    }
    found
}

/// The circles among `imports`: each as all the imports between the files that reach one another.
pub fn circles(imports: &BTreeSet<Import>) -> Vec<Vec<&Import>> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let starts: BTreeSet<&str> = imports.iter().map(|i| i.from.as_str()).collect();
    for start in starts {
        let mut open = vec![start];
        let reached = reached.entry(start).or_default();
        while let Some(file) = open.pop() {
            let next = imports.iter().filter(|i| i.from == file).map(|i| i.to.as_str());
            open.extend(next.filter(|to| reached.insert(to)));
        }
    }
    let reaches = |a: &str, b: &str| reached.get(a).is_some_and(|files| files.contains(b));
    let mut circles: Vec<Vec<&Import>> = vec![];
    for import in imports.iter().filter(|i| reaches(&i.to, &i.from)) {
        match circles
            .iter_mut()
            .find(|c| reaches(&c[0].from, &import.from) && reaches(&import.from, &c[0].from))
        {
            Some(circle) => circle.push(import),
            None => circles.push(vec![import]),
        }
    }
    circles
}

/// What is wrong with `files` when each entry of `order` may import only itself and what stands before it.
///
/// An entry is a file without its ending, or a folder with all below it that has no entry of its own. The root
/// stands above all.
pub fn out_of_order(files: &Files, imports: &BTreeSet<Import>, order: &[&str]) -> Vec<String> {
    let place = |file: &str| {
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let holds =
            |entry: &str| module.strip_prefix(entry).is_some_and(|r| r.is_empty() || r.starts_with('/'));
        let entries = order.iter().enumerate().filter(|(_, entry)| holds(entry));
        entries.max_by_key(|(_, entry)| entry.len()).map(|(at, _)| at)
    };
    let is_root = |file: &str| file == "lib.rs" || file == "main.rs";
    let mut wrong = vec![];
    for file in files.keys().filter(|file| !is_root(file) && place(file).is_none()) {
        wrong.push(format!("{file} has no place in the order"));
    }
    for (at, entry) in order.iter().enumerate().filter(|(at, _)| !files.keys().any(|f| place(f) == Some(*at)))
    {
        wrong.push(format!("no file for {entry}, number {at} of the order"));
    }
    for Import { from, to, item } in imports {
        if !is_root(from) && (is_root(to) || place(from) < place(to)) {
            wrong.push(format!("{from} -> {to} ({item}) leads upwards"));
        }
    }
    wrong
}

impl Tree {
    /// Adds the module of `file`, whose child modules are in `folder`.
    fn add_file(&mut self, files: &Files, file: &str, folder: &str, parent: usize) -> usize {
        let code = syn::parse_file(&files[file]).unwrap_or_else(|e| panic!("{file}: {e}"));
        self.add(files, file, folder, parent, code.items)
    }

    fn add(&mut self, files: &Files, file: &str, folder: &str, parent: usize, code: Vec<Item>) -> usize {
        let module = self.modules.len();
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            bindings: vec![],
            code: vec![],
        });
        for item in code.into_iter().filter(|item| !only_for_tests(attributes(item))) {
            if let Item::Mod(declared) = item {
                let name = declared.ident.to_string();
                let inside = format!("{folder}{name}/");
                let child = match declared.content {
                    Some((_, code)) => self.add(files, file, &inside, module, code),
                    None => {
                        let candidates = [format!("{folder}{name}.rs"), format!("{inside}mod.rs")];
                        let found = candidates.iter().find(|path| files.contains_key(*path));
                        let found = found.unwrap_or_else(|| panic!("{file}: no file for `mod {name};`"));
                        self.add_file(files, found, &inside, module)
                    }
                };
                self.modules[module].children.insert(name, child);
                continue;
            }
            let this = &mut self.modules[module];
            this.items.extend(name_of(&item));
            Bound(&mut this.bindings).visit_item(&item);
            this.code.push(item);
        }
        module
    }

    fn item(&self, module: usize, name: &str) -> Meaning {
        Meaning::Item { file: self.modules[module].file.clone(), name: name.to_owned() }
    }

    /// What `path` means inside `module`. `bound` holds the names whose `use` is being followed.
    fn resolve(&self, module: usize, path: &[String], bound: &mut BTreeSet<(usize, String)>) -> Vec<Meaning> {
        let mut meanings = vec![Meaning::Module(module)];
        for (at, name) in path.iter().enumerate() {
            let mut next = vec![];
            for meaning in meanings {
                let Meaning::Module(module) = meaning else {
                    next.push(meaning);
                    continue;
                };
                match name.as_str() {
                    "crate" => next.push(Meaning::Module(0)),
                    "self" => next.push(Meaning::Module(module)),
                    "super" => next.push(Meaning::Module(self.modules[module].parent)),
                    _ => {
                        let found = self.lookup(module, name, bound);
                        // A name that no `use` brings is another crate's, or else was made by a macro.
                        let otherwise = if at == 0 { Meaning::Foreign } else { self.item(module, name) };
                        next.extend(if found.is_empty() { vec![otherwise] } else { found });
                    }
                }
            }
            // A module and a function may share a name; only one of them has something inside.
            if at + 1 < path.len() && next.iter().any(|m| matches!(m, Meaning::Module(_))) {
                next.retain(|m| matches!(m, Meaning::Module(_)));
            }
            meanings = next;
        }
        meanings
    }

    fn lookup(&self, module: usize, name: &str, bound: &mut BTreeSet<(usize, String)>) -> Vec<Meaning> {
        let this = &self.modules[module];
        let mut found: Vec<Meaning> =
            this.children.get(name).map(|child| Meaning::Module(*child)).into_iter().collect();
        if this.items.contains(name) {
            found.push(self.item(module, name));
        }
        if !bound.insert((module, name.to_owned())) {
            return found;
        }
        for binding in this.bindings.iter().filter(|b| b.name.as_deref() == Some(name)) {
            found.extend(self.resolve(module, &binding.path, bound));
        }
        if found.is_empty() {
            for binding in this.bindings.iter().filter(|b| b.name.is_none()) {
                for meaning in self.resolve(module, &binding.path, bound) {
                    if let Meaning::Module(inside) = meaning {
                        found.extend(self.lookup(inside, name, bound));
                    }
                }
            }
        }
        bound.remove(&(module, name.to_owned()));
        found
    }
}

/// Collects what the `use` declarations of an item bind, also of those inside functions.
struct Bound<'a>(&'a mut Vec<Binding>);

impl<'a> Visit<'a> for Bound<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Use(declared) => flatten(&declared.tree, &mut vec![], self.0),
            _ => visit::visit_item(self, item),
        }
    }
}

/// Finds what the code of a module names.
struct Names<'a> {
    tree: &'a Tree,
    module: usize,
    found: &'a mut BTreeSet<Import>,
}

impl Names<'_> {
    fn name(&mut self, path: &[String]) {
        let from = &self.tree.modules[self.module].file;
        for meaning in self.tree.resolve(self.module, path, &mut BTreeSet::new()) {
            if let Meaning::Item { file: to, name: item } = meaning
                && to != *from
            {
                self.found.insert(Import { from: from.clone(), to, item });
            }
        }
    }

    /// The paths among the tokens of a macro or an attribute.
    fn name_all(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, mark| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == mark);
        let mut at = 0;
        while at < tokens.len() {
            if let TokenTree::Group(group) = &tokens[at] {
                self.name_all(group.stream());
            }
            let field_or_method = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
            if let TokenTree::Ident(first) = &tokens[at] {
                let mut path = vec![first.to_string()];
                while is(at + 1, ':')
                    && is(at + 2, ':')
                    && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                {
                    path.push(next.to_string());
                    at += 3;
                }
                if !field_or_method {
                    self.name(&path);
                }
            }
            at += 1;
        }
    }
}

impl<'a> Visit<'a> for Names<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Use(handed_on) if !matches!(handed_on.vis, Visibility::Inherited) => {}
            Item::Use(declared) => {
                let mut named = vec![];
                flatten(&declared.tree, &mut vec![], &mut named);
                named.iter().for_each(|binding| self.name(&binding.path));
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, method: &'a ImplItemFn) {
        if !only_for_tests(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }

    fn visit_path(&mut self, path: &'a Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.name(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        self.name_all(called.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.name_all(list.tokens.clone());
        }
    }
}

/// Adds what `tree` binds, each with its whole path.
fn flatten(tree: &UseTree, path: &mut Vec<String>, bindings: &mut Vec<Binding>) {
    let mut bind = |last: String, name: Option<String>| {
        let path = path.iter().cloned().chain((last != "self").then_some(last)).collect();
        bindings.push(Binding { name, path });
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            flatten(&inner.tree, path, bindings);
            path.pop();
        }
        UseTree::Name(named) if named.ident == "self" => bind("self".to_owned(), path.last().cloned()),
        UseTree::Name(named) => bind(named.ident.to_string(), Some(named.ident.to_string())),
        UseTree::Rename(renamed) => bind(renamed.ident.to_string(), Some(renamed.rename.to_string())),
        UseTree::Glob(_) => bind("self".to_owned(), None),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path, bindings)),
    }
}

fn only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// The name by which other files may know `item`.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(name.to_string())
}
