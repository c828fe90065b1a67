-- A small TPC-C for sysbench: nine tables less their rarely used columns, the five transactions in their mix
-- (45/43/4/4/4), no think times, no terminals, so a throughput and no tpmC. About 80 MB a warehouse.
--   sysbench orders.lua --warehouses=4 --threads=32 --time=60 prepare|run

local STOCK, CUSTOMERS, DISTRICTS = 100000, 3000, 10

sysbench.cmdline.options = {
   warehouses = {"Warehouses, about 80 MB each", 1},
}

local function columns(n, kind)
   local list = {}
   for i = 1, n do list[i] = kind:format(i) end
   return table.concat(list, ", ")
end

local tables = {
   "create table warehouse (w int primary key, ytd bigint not null, pad char(80) not null)",
   "create table district (w int, d int, ytd bigint not null, next_o int not null, pad char(80) not null, primary key (w, d))",
   "create table customer (w int, d int, c int, balance bigint not null, payments int not null, pad varchar(500) not null, primary key (w, d, c))",
   "create table history (id bigint auto_increment primary key, w int, d int, c int, amount int, pad char(24) not null)",
   "create table item (i int primary key, price int not null, pad char(50) not null)",
   "create table stock (w int, i int, quantity int not null, ytd int not null, orders int not null, " ..
      columns(10, "dist%d char(24) not null") .. ", pad char(50) not null, primary key (w, i))",
   "create table orders (w int, d int, o int, c int not null, carrier int, lines_ int not null, primary key (w, d, o), key (w, d, c, o))",
   "create table new_orders (w int, d int, o int, primary key (w, d, o))",
   "create table order_line (w int, d int, o int, n int, i int not null, quantity int not null, amount int not null, delivered int, dist char(24) not null, primary key (w, d, o, n))",
}

local function text(n) return sysbench.rand.string(string.rep("@", n)) end

local function bulk(con, into, count, row)
   con:bulk_insert_init("insert into " .. into .. " values")
   for n = 1, count do con:bulk_insert_next(row(n)) end
   con:bulk_insert_done()
end

local function fill(con, w)
   con:query(("insert into warehouse values (%d, 0, '%s')"):format(w, text(80)))
   bulk(con, "stock", STOCK, function(i)
      local dist = {}
      for n = 1, 10 do dist[n] = "'" .. text(24) .. "'" end
      return ("(%d, %d, %d, 0, 0, %s, '%s')"):format(w, i, sysbench.rand.uniform(10, 100), table.concat(dist, ","), text(50))
   end)
   for d = 1, DISTRICTS do
      con:query(("insert into district values (%d, %d, 0, %d, '%s')"):format(w, d, CUSTOMERS + 1, text(80)))
      bulk(con, "customer", CUSTOMERS, function(c)
         return ("(%d, %d, %d, -10, 1, '%s')"):format(w, d, c, text(400))
      end)
      bulk(con, "orders", CUSTOMERS, function(o)
         return ("(%d, %d, %d, %d, 1, 10)"):format(w, d, o, sysbench.rand.uniform(1, CUSTOMERS))
      end)
      bulk(con, "order_line", CUSTOMERS * 10, function(n)
         return ("(%d, %d, %d, %d, %d, 5, %d, 1, '%s')"):format(w, d, math.floor((n - 1) / 10) + 1, (n - 1) % 10 + 1,
            sysbench.rand.uniform(1, STOCK), sysbench.rand.uniform(1, 9999), text(24))
      end)
   end
end

function prepare()
   local con = sysbench.sql.driver():connect()
   for _, sql in ipairs(tables) do con:query(sql) end
   bulk(con, "item", STOCK, function(i) return ("(%d, %d, '%s')"):format(i, sysbench.rand.uniform(100, 9999), text(50)) end)
   for w = 1, sysbench.opt.warehouses do fill(con, w) end
end

function cleanup()
   local con = sysbench.sql.driver():connect()
   for _, sql in ipairs(tables) do con:query("drop table if exists " .. sql:match("create table (%S+)")) end
end

local con

function thread_init() con = sysbench.sql.driver():connect() end
function thread_done() con:disconnect() end

local function where()
   return sysbench.rand.uniform(1, sysbench.opt.warehouses), sysbench.rand.uniform(1, DISTRICTS)
end
-- Some customers and items are asked for more often (TPC-C's NURand, by sysbench's own skewed draw).
local function customer() return sysbench.rand.gaussian(1, CUSTOMERS) end
local function item() return sysbench.rand.pareto(1, STOCK) end

local function new_order()
   local w, d = where()
   local c, lines = customer(), sysbench.rand.uniform(5, 15)
   local wanted, items = {}, {}
   -- In order of items, so that no two wait for each other.
   for _ = 1, lines do wanted[item()] = true end
   for i in pairs(wanted) do items[#items + 1] = i end
   table.sort(items)
   local o = con:query_row(("select next_o from district where w=%d and d=%d for update"):format(w, d))
   con:query(("update district set next_o=next_o+1 where w=%d and d=%d"):format(w, d))
   con:query(("insert into orders values (%d,%d,%d,%d,null,%d)"):format(w, d, o, c, #items))
   con:query(("insert into new_orders values (%d,%d,%d)"):format(w, d, o))
   for n, i in ipairs(items) do
      local price = con:query_row(("select price from item where i=%d"):format(i))
      con:query(("update stock set quantity=if(quantity<15,quantity+91,quantity-5), ytd=ytd+5, orders=orders+1 where w=%d and i=%d"):format(w, i))
      con:query(("insert into order_line values (%d,%d,%d,%d,%d,5,%d,null,'%s')"):format(w, d, o, n, i, price * 5, text(24)))
   end
end

local function payment()
   local w, d = where()
   local c, amount = customer(), sysbench.rand.uniform(1, 5000)
   con:query(("update warehouse set ytd=ytd+%d where w=%d"):format(amount, w))
   con:query(("update district set ytd=ytd+%d where w=%d and d=%d"):format(amount, w, d))
   con:query(("update customer set balance=balance-%d, payments=payments+1 where w=%d and d=%d and c=%d"):format(amount, w, d, c))
   con:query(("insert into history (w,d,c,amount,pad) values (%d,%d,%d,%d,'%s')"):format(w, d, c, amount, text(24)))
end

local function order_status()
   local w, d = where()
   local o = con:query_row(("select max(o) from orders where w=%d and d=%d and c=%d"):format(w, d, customer()))
   if o then con:query(("select i, quantity, amount, delivered from order_line where w=%d and d=%d and o=%s"):format(w, d, o)) end
end

local function delivery()
   local w, d = where()
   local o = con:query_row(("select min(o) from new_orders where w=%d and d=%d for update"):format(w, d))
   if not o then return end
   con:query(("delete from new_orders where w=%d and d=%d and o=%s"):format(w, d, o))
   con:query(("update orders set carrier=%d where w=%d and d=%d and o=%s"):format(sysbench.rand.uniform(1, 10), w, d, o))
   con:query(("update order_line set delivered=1 where w=%d and d=%d and o=%s"):format(w, d, o))
   con:query(("update customer set balance=balance+1 where w=%d and d=%d and c=%d"):format(w, d, customer()))
end

local function stock_level()
   local w, d = where()
   local o = con:query_row(("select next_o from district where w=%d and d=%d"):format(w, d))
   con:query(("select count(distinct s.i) from order_line l join stock s on s.w=l.w and s.i=l.i where l.w=%d and l.d=%d and l.o between %d and %d and s.quantity < 15")
      :format(w, d, o - 20, o - 1))
end

function event()
   local draw = sysbench.rand.uniform(1, 100)
   con:query("begin")
   if draw <= 45 then new_order()
   elseif draw <= 88 then payment()
   elseif draw <= 92 then order_status()
   elseif draw <= 96 then delivery()
   else stock_level() end
   con:query("commit")
end

sysbench.hooks.sql_error_ignorable = function(e)
   -- Deadlock, lock wait timeout: rolled back by the server, counted by sysbench, tried again.
   return e.sql_errno == 1213 or e.sql_errno == 1205
end
