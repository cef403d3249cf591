"""The configuration files of Patroni, HAProxy and PgBouncer."""

PATRONI = """scope: sesi
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{hosts: ["127.0.0.1:{etcd}"], use_proxies: true}}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql: {{use_pg_rewind: true, parameters: {{wal_log_hints: "on", max_connections: 300}}}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, {{auth: trust}}, no-sync]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: {folder}/{name}
  bin_dir: {binaries}
  pgpass: {folder}/{name}.pgpass
  authentication: {{superuser: {{username: postgres}}, replication: {{username: repl}}, rewind: {{username: postgres}}}}
  parameters: {{unix_socket_directories: '', fsync: "off"}}
"""
HAPROXY = """defaults
    mode tcp
    timeout connect 1s
    timeout check 1s
    timeout client 30m
    timeout server 30m
listen primary
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fastinter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""
PGBOUNCER = """[databases]
sesi = host=127.0.0.1 port={server} dbname=sesi
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_login_retry = 1
server_connect_timeout = 2
query_wait_timeout = 3
{more}
"""
