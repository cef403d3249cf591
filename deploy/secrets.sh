#!/bin/bash
# Makes the secrets of Sesi that are missing, and sets the passwords of the roles of PostgreSQL and of Redis on this
# machine: docs/deploying.md.
set -euo pipefail
umask 077
mkdir -p /etc/sesi/secrets /etc/pgbackrest/conf.d
chmod 755 /etc/pgbackrest /etc/pgbackrest/conf.d
cd /etc/sesi/secrets

for role in run jobs migrate; do
  file=database_url_$role
  [ $role != run ] || file=database_url
  if [ ! -e $file ]; then
    password=$(openssl rand -hex 24)
    echo "ALTER ROLE sesi_$role PASSWORD '$password'" | (cd / && runuser -u postgres -- psql -q -v ON_ERROR_STOP=1 sesi)
    echo "postgresql://sesi_$role:$password@127.0.0.1/sesi" >$file
  fi
done
if [ ! -e redis_url ]; then
  password=$(openssl rand -hex 24)
  # Signals and rate limits only: nothing is kept.
  printf 'requirepass %s\nsave ""\n' "$password" >>/etc/redis/redis.conf
  systemctl restart redis-server
  echo "redis://:$password@127.0.0.1:6379/0" >redis_url
fi
[ -e jwt_secrets ] || echo "$(date +%Y)a:$(openssl rand -hex 32)" >jwt_secrets
[ -e receipt_signing_keys ] || echo "$(date +%Y)a:$(openssl rand -hex 32)" >receipt_signing_keys
[ -e erasure_hash_keys ] || openssl rand -hex 32 >erasure_hash_keys
[ -e gateway_callback_token ] || openssl rand -hex 24 >gateway_callback_token
if [ ! -e /etc/pgbackrest/conf.d/secret.conf ]; then
  printf '[global]\nrepo1-cipher-pass=%s\n' "$(openssl rand -base64 48)" >/etc/pgbackrest/conf.d/secret.conf
  chown postgres /etc/pgbackrest/conf.d/secret.conf
fi
