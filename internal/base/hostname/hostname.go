// Package hostname gives each host one name, where it is the key of a budget, of a breaker
// or of a label.
package hostname

import "strings"

// maxName is the length of the longest name, as in the domain name system.
const maxName = 255

// Canonical returns the name of a host as it is in a URL, with or without a port: in lower
// case, without the dot of the root, and without the ports 80 and 443. It encodes no
// letters: a name in Unicode and its form in ASCII (xn--) remain two. Text before a
// slash, as in a target of gRPC, is kept.
func Canonical(host string) string {
	host = strings.ToLower(host[:min(len(host), maxName)])
	begin := strings.LastIndexByte(host, '/') + 1
	end, port := split(host, begin)
	switch dot := end > begin+1 && host[end-1] == '.'; {
	case dot:
		return host[:end-1] + port
	case port != "":
		return host // as it is, without a copy
	}
	return host[:end]
}

// split returns where the name ends that begins there, and the port that a URL must have,
// with its colon.
func split(host string, begin int) (end int, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < begin || strings.IndexByte(host[begin:], ':') < i-begin && host[i-1] != ']' { // none, or an IPv6 address
		return len(host), ""
	}
	switch port = host[i:]; port {
	case ":", ":80", ":443":
		port = ""
	}
	return i, port
}

// OfURL returns the canonical name of the host of an address, "" if it has none. The path,
// the query and the user are no part of it.
func OfURL(address string) string {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return Canonical(rest[strings.LastIndexByte(rest, '@')+1:])
}
