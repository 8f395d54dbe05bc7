#!/usr/bin/env bash
# Installs what the tests need from the system: a C compiler for the race
# detector, PostgreSQL, MariaDB, MySQL, Redis, Valkey, PgBouncer, NATS, RabbitMQ, Prometheus, a mail server, strace, faketime, Node.js, a browser, Java. Quick when all is there.
# Where it may not install, it says what is missing and goes on: the tests that need it then
# skip by name, or fail where CI=true.
set -euo pipefail

# has PROGRAM: in PATH, or in an sbin directory that a user's PATH may lack.
has() {
	command -v "$1" >/dev/null || [ -x "/usr/local/sbin/$1" ] || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]
}

# Debian keeps the server's programs out of PATH.
has_postgresql() {
	local dir
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin; do
		[ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && [ -x "$dir/psql" ] && return 0
	done
	has initdb && has postgres && has psql
}

has_mariadb() {
	has mariadbd && has mariadb-install-db && has mariadb
}

# The race detector needs a compiler and the C library's headers.
can_compile() {
	has gcc && echo '#include <stdlib.h>' | gcc -E -o /dev/null - 2>/dev/null
}

find_missing() {
	missing=() optional=()
	can_compile || missing+=(gcc libc6-dev)
	has_postgresql || missing+=(postgresql)
	# The programs alone: mariadb-server would add a service that starts with the
	# machine.
	has_mariadb || missing+=(mariadb-server-core mariadb-client-core)
	has pgbouncer || missing+=(pgbouncer)
	has nats-server || missing+=(nats-server)
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing+=(rabbitmq-server)
	has redis-server || missing+=(redis-server)
	has aiosmtpd || missing+=(python3-aiosmtpd)
	has prometheus && has promtool || missing+=(prometheus)
	has strace || missing+=(strace)
	has faketime || missing+=(faketime)
	# For the validators of OpenAPI documents, and for what uses npm.
	has node || missing+=(nodejs)
	has npm || missing+=(npm)
	# Only for the pages of the console.
	has chromium || missing+=(chromium)
	# A recipe is run with Java.
	has javac || missing+=(default-jdk-headless)
	[ -e /usr/share/java/postgresql.jar ] || missing+=(libpostgresql-jdbc-java)
	# A recipe is run with psycopg where the system has that package.
	/usr/bin/python3 -c 'import psycopg' 2>/dev/null || optional+=(python3-psycopg)
}

explain() {
	echo "setup: missing: ${missing[*]}. $1" >&2
	echo "Try: apt-get install ${missing[*]} (the names of Debian's packages)" >&2
}

# The other servers do not depend on them. They say themselves what they lack. internal/testenv looks there.
"$(dirname "$0")/mysql-server.sh" /var/lib/once-testenv/mysql || true
"$(dirname "$0")/valkey-server.sh" /var/lib/once-testenv/valkey || true

find_missing
if [ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ]; then
	echo "setup: no package is missing"
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	[ ${#missing[@]} -eq 0 ] || explain "Only root on a Debian system can have them installed here; the tests that need them will say so."
	exit 0
fi

echo "setup: installing ${missing[*]} ${optional[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -qq -y --no-install-recommends "$@" >/dev/null; }

# The packages start their servers as services. The tests start servers of their
# own, so for the time of the installation nothing may be started; and no main
# cluster is made, which is a setting of postgresql-common. On a machine where
# either was decided before, that decision stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
apt-get update -qq
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
	install postgresql-common
	conf=/etc/postgresql-common/createcluster.conf
	if ! grep -qsE '^[[:space:]]*create_main_cluster' "$conf"; then
		printf '\n# The tests of once start clusters of their own.\ncreate_main_cluster = false\n' >>"$conf"
		echo "setup: $conf: new PostgreSQL packages make no main cluster"
	fi
fi
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
[ ${#optional[@]} -eq 0 ] || install "${optional[@]}" || echo "setup: ${optional[*]} is not there: the tests that use it skip"

find_missing
if [ ${#missing[@]} -ne 0 ]; then
	explain "They were installed, but are still not found."
	exit 1
fi
echo "setup: done"
