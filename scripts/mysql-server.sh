#!/usr/bin/env bash
# Unpacks a MySQL server into a directory of its own, beside the system: Debian's stable suites
# have MariaDB only, and the two cannot be installed together.
# usage: mysql-server.sh DIR      then: DIR/mysqld --no-defaults ...
set -euo pipefail

name=MySQL dir=$1 otherwise="set ONCE_MYSQL_BIN to a directory with a mysqld of MySQL"
[ ! -x "$dir/mysqld" ] || exit 0
. "$(dirname "$0")/sid.sh"

unpack mysql-server-core
rm -rf "$part"/root/usr/bin
cat >"$part/mysqld" <<EOS
#!/bin/sh
# The server with the loader and the libraries that it was built with.
root=$dir/root
exec "\$root/$loader" --library-path "\$root/$lib:\$root/usr/lib/mysql/private" "\$root/usr/sbin/mysqld" "\$@" \\
	--lc-messages-dir="\$root/usr/share/mysql" --character-sets-dir="\$root/usr/share/mysql/charsets" \\
	--plugin-dir="\$root/usr/lib/mysql/plugin"
EOS
chmod 755 "$part/mysqld"
"$part/root/$loader" --library-path "$part/root/$lib:$part/root/usr/lib/mysql/private" "$part/root/usr/sbin/mysqld" --no-defaults --version ||
	cannot "It does not run on this system." "$otherwise"
arrive mysqld
