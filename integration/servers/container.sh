# What runs in a container, as the user postgres: the data directory is made on the first start, then PostgreSQL runs
# until its time is over. Arguments: lifetime in seconds, then options of postgres.
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
data=$HARE_DIRECTORY/hare
life=$1
shift
if [ ! -f "$data/complete" ]; then
	rm -rf "$data"
	if [ -n "${HARE_PRIMARY:-}" ]; then
		PGPASSWORD=$HARE_PASSWORD "$bin/pg_basebackup" --pgdata="$data" --host="$HARE_PRIMARY" --username=hare \
			--checkpoint=fast --no-sync
		touch "$data/standby.signal"
	else
		printf %s "$HARE_PASSWORD" >/tmp/password
		"$bin/initdb" --pgdata="$data" --username=hare --pwfile=/tmp/password --auth=scram-sha-256 \
			--encoding=UTF8 --locale=C.UTF-8 --no-sync
		rm /tmp/password
		printf 'host %s all all scram-sha-256\n' all replication >>"$data/pg_hba.conf"
	fi
	touch "$data/complete"
fi
# A killed container restarts with the same process numbers, among which the old lock file might name a living one.
rm -f "$data/postmaster.pid"
exec timeout --foreground --signal=KILL "$life" "$bin/postgres" -D "$data" "$@"
