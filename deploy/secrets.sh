#!/bin/bash
# Makes the secrets of Sesi that are missing, and sets the passwords of the roles of PostgreSQL and of Redis on this
# machine: docs/deploying.md.
set -euo pipefail
umask 077
mkdir -p /etc/sesi/secrets /etc/pgbackrest/conf.d
chmod 755 /etc/pgbackrest /etc/pgbackrest/conf.d
cd /etc/sesi/secrets

# Writes the output of a command into a file, unless the command or the disk fails: else the file would stay empty.
make() {
  local file=$1
  shift
  "$@" >"$file.new"
  mv "$file.new" "$file"
}
key() {
  local made
  made=$(openssl rand -hex 32)
  echo "$(date +%Y)a:$made"
}

for role in run jobs migrate; do
  file=database_url_$role
  [ $role != run ] || file=database_url
  if [ ! -e $file ]; then
    password=$(openssl rand -hex 24)
    echo "ALTER ROLE sesi_$role PASSWORD '$password'" | (cd / && runuser -u postgres -- psql -q -v ON_ERROR_STOP=1 sesi)
    make $file echo "postgresql://sesi_$role:$password@127.0.0.1/sesi"
  fi
done
if [ ! -e redis_url ]; then
  password=$(openssl rand -hex 24)
  # Signals and rate limits only: nothing is kept.
  printf 'requirepass %s\nsave ""\n' "$password" >>/etc/redis/redis.conf
  systemctl restart redis-server
  make redis_url echo "redis://:$password@127.0.0.1:6379/0"
fi
[ -e jwt_secrets ] || make jwt_secrets key
[ -e receipt_signing_keys ] || make receipt_signing_keys key
[ -e erasure_hash_keys ] || make erasure_hash_keys openssl rand -hex 32
[ -e gateway_callback_token ] || make gateway_callback_token openssl rand -hex 24
if [ ! -e /etc/pgbackrest/conf.d/secret.conf ]; then
  password=$(openssl rand -base64 48)
  make /etc/pgbackrest/conf.d/secret.conf printf '[global]\nrepo1-cipher-pass=%s\n' "$password"
  chown postgres /etc/pgbackrest/conf.d/secret.conf
fi
