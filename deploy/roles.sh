# Compose runs it as the superuser: makes the roles of roles.sql, with the passwords of their URLs.
set -eu
PGHOST=postgres PGUSER=postgres PGDATABASE=sesi PGPASSWORD=$(cat /run/secrets/postgres_password)
export PGHOST PGUSER PGDATABASE PGPASSWORD
psql -v ON_ERROR_STOP=1 -f /roles.sql
for role in run jobs migrate; do
  case $role in
    run) url=$(cat /run/secrets/database_url) ;;
    *) url=$(cat "/run/secrets/database_url_$role") ;;
  esac
  password=${url#*://*:}
  echo "ALTER ROLE sesi_$role PASSWORD :'password'" | psql -v ON_ERROR_STOP=1 -v password="${password%%@*}"
done
