#!/usr/bin/env bash
# Unpacks a MySQL server into a directory of its own, beside the system: Debian's stable suites
# have MariaDB only, and the two cannot be installed together. It is the newest server of the
# unstable suite, with its libraries and their loader, so it runs on an older Debian.
# usage: mysql-server.sh DIR      then: DIR/mysqld --no-defaults ...
set -euo pipefail
umask 022

dir=$1
[ ! -x "$dir/mysqld" ] || exit 0

cannot() {
	echo "setup: missing: MySQL, in $dir. $1" >&2
	echo "Try: ${2:-make setup, as root on a Debian system with network; or set ONCE_MYSQL_BIN to a directory with a mysqld of MySQL}" >&2
	exit 1
}
[ "$(id -u)" -eq 0 ] || cannot "Only root can write there."
command -v apt-get >/dev/null && command -v dpkg >/dev/null || cannot "apt-get and dpkg, which bring it, are not here."
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || cannot "$keyring, which proves its origin, is not here."
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '!/security/ && /\/debian\/*$/ && !n++')
[ -n "$mirror" ] || cannot "apt has no source of Debian's packages."

echo "setup: unpacking MySQL into $dir"
mkdir -p "$(dirname "$dir")"
part=$(mktemp -d "$dir.part-XXXXXX") # $dir appears when it is whole
trap 'rm -rf "$part"' EXIT
chmod 755 "$part"

# apt with lists, a cache and a state of its own, in which nothing is installed.
apt=$part/apt
mkdir -p "$apt"/etc/{preferences.d,apt.conf.d} "$apt/state/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
echo "deb [signed-by=$keyring] $mirror sid main" >"$apt/etc/sources.list"
options=(-qq -o Dir::Etc="$apt/etc" -o Dir::State="$apt/state" -o Dir::Cache="$apt/cache" -o Dir::State::status="$apt/status"
	-o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Retries=0 -o Acquire::http::Timeout=20)
apt-get "${options[@]}" -o APT::Update::Error-Mode=any update || cannot "$mirror did not answer with the lists of its suite sid."
apt-get "${options[@]}" install --download-only -y mysql-server-core >/dev/null || cannot "$mirror did not answer with mysql-server-core."
for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$part/root"; done
rm -rf "$apt" "$part"/root/etc "$part"/root/usr/bin "$part"/root/usr/share/{doc,man,perl} "$part"/root/usr/lib/*/perl

lib=usr/lib/$(uname -m)-linux-gnu
loader=$(cd "$part/root" && find "$lib" -name 'ld-linux*.so.*' | head -n 1)
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
	cannot "It does not run on this system." "set ONCE_MYSQL_BIN to a directory with a mysqld of MySQL"
mv -T "$part" "$dir" 2>/dev/null || [ -x "$dir/mysqld" ] || cannot "$dir is in the way." "rm -r $dir, and then make setup"
