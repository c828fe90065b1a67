# A virtual machine with Debian's kernel (TCG, so without any right or module of this machine), whose root is this
# machine's, read-only. Nothing is installed. Sourced by the scripts beside it, which set nandle, here and work.
export PATH="$PATH:/usr/sbin:/sbin"
skip() { echo "SKIPPED: $*" >&2; exit 77; }
needs() { # PROGRAM...
  for program in qemu-system-x86_64 cpio dpkg-deb modprobe depmod xz "$@"; do
    command -v "$program" >/dev/null ||
      skip "$program is not installed (Debian: qemu-system-x86 nvme-cli f2fs-tools fio cpio kmod xz-utils)"
  done
}

# The kernel: whatever Debian's metapackage names today; if that one lacks the module, the one in backports.
fetch_kernel() { # [MODULE]
  cache=${NANDLE_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nandle-guest}
  mkdir -p "$cache"
  fetch_kernel_by
  [ $# = 0 ] || has_module "$1" || {
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 2>/dev/null | awk -v r="$release" '$2 == r {print $1; exit}')
    [ -n "$mirror" ] || skip "$package has no $1, and apt-get names no mirror of Debian $release for its backports"
    lists=$cache/backports
    mkdir -p "$lists/lists/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release-backports main" > "$lists/sources.list"
    options=(-o "Dir::Etc::sourcelist=$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null
      -o "Dir::State::lists=$lists/lists" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
    apt-get "${options[@]}" update -q >&2 || skip "$package has no $1, and $release-backports cannot be reached"
    fetch_kernel_by "${options[@]}"
    has_module "$1" || skip "neither Debian's kernel nor the one in backports has $1"
  }
}
has_module() { modprobe -d "$kernel_root" -S "$kernel" --show-depends "$1" >/dev/null 2>&1; }
fetch_kernel_by() { # [APT OPTION...]
  package=$(apt-cache "$@" depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/{print $2; exit}') || true
  [ -n "$package" ] || skip "apt-cache knows no linux-image-amd64 (Debian, with its package lists)"
  kernel=${package#linux-image-}
  kernel_root=$cache/$package
  if [ ! -e "$kernel_root/boot/vmlinuz-$kernel" ]; then
    rm -f "$work"/*.deb
    (cd "$work" && apt-get "$@" download -q "$package" >&2 && apt-get download -q busybox-static >&2) ||
      skip "$package cannot be downloaded"
    for deb in "$work"/*.deb; do dpkg-deb -x "$deb" "$kernel_root"; done
    depmod -b "$kernel_root" "$kernel"
  fi
}

# An initramfs: busybox, the modules given in the order in which they are loaded, and the script inside.sh.
pack() { # INSIDE MODULE...
  tree=$work/tree
  mkdir -p "$tree"/{bin,proc,sys,dev,host,modules}
  cp "$1" "$tree/inside.sh"
  shift
  cp "$kernel_root/bin/busybox" "$tree/bin/busybox"
  for applet in sh mount insmod cat echo ip poweroff chroot sync; do ln -s busybox "$tree/bin/$applet"; done
  for module in "$@"; do
    modprobe -d "$kernel_root" -S "$kernel" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" {print $2}'
  done | awk '!seen[$0]++' > "$work/order"
  while read -r file; do
    name=$(basename "$file" .xz)
    case $file in *.xz) xz -dc "$file" > "$tree/modules/$name" ;; *) cp "$file" "$tree/modules/$name" ;; esac
    echo "$name" >> "$tree/modules/order"
  done < "$work/order"
  cat > "$tree/init" <<'INIT'
#!/bin/sh
mount -t devtmpfs dev /dev; exec > /dev/ttyS0 2>&1; mount -t proc proc /proc; mount -t sysfs sys /sys
while read -r m; do insmod /modules/$m 2>/dev/null; done < /modules/order
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,ro hostroot /host || poweroff -f
for fs in "devtmpfs dev" "proc proc" "sysfs sys" "tmpfs run" "tmpfs mnt" "tmpfs tmp"; do mount -t $fs /host/${fs#* }; done
cat /inside.sh > /host/run/inside.sh
chroot /host /bin/bash /run/inside.sh
sync; poweroff -f
INIT
  chmod +x "$tree/init"
  (cd "$tree" && find . | cpio -o -H newc --quiet) > "$work/initrd"
}

# Boots it with more devices; what it says goes to $work/said too.
boot() { # QEMU ARGUMENT...
  timeout "${NANDLE_GUEST_SECONDS:-600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -smp 1 -M q35 \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot \
    -kernel "$kernel_root/boot/vmlinuz-$kernel" -initrd "$work/initrd" \
    -append "console=ttyS0 panic=-1 loglevel=3 mitigations=off" "$@" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=hostroot < /dev/null 2>&1 | tr -d '\r' | tee "$work/said"
}
