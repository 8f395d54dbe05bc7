#!/usr/bin/env bash
# Unpacks a Valkey server into a directory of its own, beside the system: older suites of Debian have none.
# usage: valkey-server.sh DIR      then: DIR/valkey-server CONFIG
set -euo pipefail

name=Valkey dir=$1 otherwise="install a valkey-server"
[ ! -x "$dir/valkey-server" ] && ! command -v valkey-server >/dev/null || exit 0
. "$(dirname "$0")/sid.sh"

unpack valkey-server
cat >"$part/valkey-server" <<EOS
#!/bin/sh
# The server with the loader and the libraries that it was built with.
root=$dir/root
exec "\$root/$loader" --library-path "\$root/$lib" "\$root/usr/bin/valkey-server" "\$@"
EOS
chmod 755 "$part/valkey-server"
"$part/root/$loader" --library-path "$part/root/$lib" "$part/root/usr/bin/valkey-server" --version || cannot "It does not run on this system." "$otherwise"
arrive valkey-server
