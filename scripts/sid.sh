# For scripts that unpack a server into a directory of its own, beside the system: it is the newest one of Debian's unstable suite, with its
# libraries and their loader, so it runs on an older Debian. They set name, dir, and otherwise: what helps where make setup does not.
# shellcheck shell=bash disable=SC2154
umask 022

cannot() {
	echo "setup: missing: $name, in $dir. $1" >&2
	echo "Try: ${2:-make setup, as root on a Debian system with network; or $otherwise}" >&2
	exit 1
}

# unpack PACKAGE unpacks it and all that it needs into $part/root. Then lib is where the libraries are in there, and loader is their loader.
unpack() {
	[ "$(id -u)" -eq 0 ] || cannot "Only root can write there."
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || cannot "apt-get and dpkg, which bring it, are not here."
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror apt deb options
	[ -r "$keyring" ] || cannot "$keyring, which proves its origin, is not here."
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '!/security/ && /\/debian\/*$/ && !n++')
	[ -n "$mirror" ] || cannot "apt has no source of Debian's packages."

	echo "setup: unpacking $name into $dir"
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
	apt-get "${options[@]}" install --download-only -y "$1" >/dev/null || cannot "$mirror did not answer with $1."
	for deb in "$apt"/cache/archives/*.deb; do dpkg -x "$deb" "$part/root"; done
	rm -rf "$apt" "$part"/root/etc "$part"/root/usr/share/{doc,man,perl} "$part"/root/usr/lib/*/perl

	lib=usr/lib/$(uname -m)-linux-gnu
	loader=$(cd "$part/root" && find "$lib" -name 'ld-linux*.so.*' | head -n 1)
}

# arrive moves what was unpacked to $dir, in which there is PROGRAM then.
arrive() {
	mv -T "$part" "$dir" 2>/dev/null || [ -x "$dir/$1" ] || cannot "$dir is in the way." "rm -r $dir, and then make setup"
}
