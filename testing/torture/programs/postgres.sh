# A server of several processes under load; afterwards its books must balance.
if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=postgres --regid=postgres --clear-groups bash ./postgres.sh; fi
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); export PGHOST=$PWD PGUSER=$(id -un) PGDATABASE=postgres
$bin/initdb -D data -A trust --no-sync -N -E UTF8 --locale=C > initdb.log 2>&1
$bin/postgres -D data -k "$PWD" -c listen_addresses= -c fsync=off -c max_connections=30 \
  -c jit=off -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 > server.log 2>&1 &
server=$!
for i in $(seq 600); do $bin/pg_isready -q && break; sleep 0.05; done
$bin/pgbench -i -q -s 1 > init.log 2>&1
$bin/pgbench -n -c 4 -j 2 -t 400 > bench.log 2>&1
$bin/pgbench -n -S -M prepared -c 3 -j 1 -t 3000 >> bench.log 2>&1
grep -c 'actually processed: 1600/1600\|actually processed: 9000/9000' bench.log
$bin/psql -X -q -A -t -v ON_ERROR_STOP=1 << 'SQL'
set jit = on; set jit_above_cost = 100000;
select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
       (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history),
       (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history), count(*) from pgbench_history;
select sum(x::numeric * x), md5(string_agg(x::text, ',' order by x desc)) from generate_series(1, 60000) x;
select count(*), sum(length(a.filler)) from pgbench_accounts a join pgbench_branches using (bid) where aid % 3 = 0;
do $$ begin for i in 1..3000 loop begin perform 1 / (i % 2); exception when division_by_zero then null; end; end loop; end $$;
with recursive f(a, b, n) as (select 0::numeric, 1::numeric, 1 union all select b, a + b, n + 1 from f where n < 300) select max(a) from f;
select regexp_replace(repeat('abc123', 2000), '\d', 'x', 'g') like 'abcxxxabc%';
SQL
kill -INT $server; wait $server
