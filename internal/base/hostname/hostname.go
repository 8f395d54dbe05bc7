// Package hostname gives each host one name. This name is the key of a budget or a breaker, and the value of a label.
package hostname

import "strings"

// maxName is the length of the longest name, as in the domain name system.
const maxName = 255

// Canonical returns the name of a host that comes from a URL, with or without a port. The result is in lower case, without
// the final dot, and without the ports 80 and 443. Canonical does not encode letters: a name in Unicode and its form in
// ASCII (xn--) stay two names. Text before a slash, as in a target of gRPC, is kept.
func Canonical(host string) string {
	host = strings.ToLower(host[:min(len(host), maxName)])
	begin := strings.LastIndexByte(host, '/') + 1
	end, port := split(host, begin)
	switch dot := end > begin+1 && host[end-1] == '.'; {
	case dot:
		return host[:end-1] + port
	case port != "":
		return host // unchanged, so no copy is needed
	}
	return host[:end]
}

// split returns where the name that starts at begin ends, and the port with its colon. The port is empty if a URL need not
// have it.
func split(host string, begin int) (end int, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < begin || strings.IndexByte(host[begin:], ':') < i-begin && host[i-1] != ']' { // no port, or an IPv6 address without a port
		return len(host), ""
	}
	switch port = host[i:]; port {
	case ":", ":80", ":443":
		port = ""
	}
	return i, port
}

// OfURL returns the canonical name of the host of a URL, or "" if the URL has no host. It ignores the path, the query and
// the user.
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
