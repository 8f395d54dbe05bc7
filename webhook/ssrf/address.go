package ssrf

import (
	"fmt"
	"net/netip"
)

// special has the prefixes of the special-purpose registries of IANA (RFC 6890) that no receiver on the
// internet has, and multicast. Only 2000::/3 of IPv6 is allocated, so the list has only the special prefixes
// inside it.
var special = prefixes(
	"0.0.0.0/8", "this network",
	"10.0.0.0/8", "private",
	"100.64.0.0/10", "shared by carriers",
	"127.0.0.0/8", "loopback",
	"169.254.0.0/16", "link-local",
	"172.16.0.0/12", "private",
	"192.0.0.0/24", "for protocols",
	"192.0.2.0/24", "for documentation",
	"192.31.196.0/24", "for AS112",
	"192.52.193.0/24", "for multicast tunnels",
	"192.88.99.0/24", "6to4 relays",
	"192.168.0.0/16", "private",
	"192.175.48.0/24", "for AS112",
	"198.18.0.0/15", "for benchmarks",
	"198.51.100.0/24", "for documentation",
	"203.0.113.0/24", "for documentation",
	"224.0.0.0/4", "multicast",
	"240.0.0.0/4", "reserved",
	"2001::/23", "for protocols and tunnels",
	"2001:db8::/32", "for documentation",
	"2002::/16", "6to4, with an IPv4 address inside",
	"2620:4f:8000::/48", "for AS112",
	"3fff::/20", "for documentation",
)

// metadata has the addresses at which clouds give secrets to any request from one of their machines.
var metadata = prefixes(
	"169.254.169.254/32", "AWS, Azure, Google Cloud and others",
	"169.254.169.253/32", "AWS, DNS",
	"169.254.170.2/32", "AWS ECS",
	"169.254.170.23/32", "AWS EKS",
	"169.254.42.42/32", "Scaleway",
	"169.254.0.23/32", "Tencent Cloud",
	"100.100.100.200/32", "Alibaba Cloud",
	"192.0.0.192/32", "Oracle Cloud",
	"168.63.129.16/32", "Azure, a public address",
	"fd00:ec2::/32", "AWS",
	"fd20:ce::254/128", "Google Cloud",
	"fd00:42::42/128", "Scaleway",
	"fd00:c1::a9fe:a9fe/128", "Oracle Cloud",
)

var (
	global = netip.MustParsePrefix("2000::/3")     // the allocated part of IPv6
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // the last four bytes of such an address are an IPv4 address
)

// named is a prefix with the name of its purpose.
type named struct {
	prefix netip.Prefix
	name   string
}

func prefixes(texts ...string) (list []named) {
	for i := 0; i < len(texts); i += 2 {
		list = append(list, named{netip.MustParsePrefix(texts[i]), texts[i+1]})
	}
	return list
}

func find(list []named, a netip.Addr) *named {
	for i := range list {
		if list[i].prefix.Contains(a) {
			return &list[i]
		}
	}
	return nil
}

// CheckAddr returns an error with the reason if the guard allows no connection to the address a.
func (g *Guard) CheckAddr(a netip.Addr) error {
	switch {
	case !a.IsValid():
		return refused("the address is empty or not valid")
	// An address with a zone is valid only on this machine.
	case a.Zone() != "":
		return refused("the address %s has a zone, which names a network interface of this host. Try: an address without a zone", a)
	// The prefixes of IPv4 addresses would not match such an address.
	case a.Is4In6():
		return refused("the address %s is an IPv6 form of an IPv4 address. Try: %s", a, a.Unmap())
	}
	// The metadata addresses come before the settings, because no setting may allow them.
	if m := find(metadata, a); m != nil {
		return refused("the address %s is the metadata address of a cloud provider (%s), and no setting allows it", a, m.name)
	}
	allowed := g.allows(a)
	if nat64.Contains(a) && allowed { // NAT64 connects to the IPv4 address inside, so that address decides
		bytes := a.As16()
		return g.CheckAddr(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	if allowed {
		return nil
	}
	if s := find(special, a); s != nil {
		return refused("the address %s is not public: %s is %s. Try: add the prefix to Guard.AllowPrefixes, if your own receivers use it", a, s.prefix, s.name)
	}
	if a.Is6() && !global.Contains(a) {
		return refused("the address %s is not public: it is outside of %s. Try: add a prefix to Guard.AllowPrefixes, if your own receivers use it", a, global)
	}
	return nil
}

func (g *Guard) allows(a netip.Addr) bool {
	for _, p := range g.AllowPrefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// refused returns an error that matches ErrRefused.
func refused(format string, args ...any) error {
	return refusal(fmt.Sprintf("ssrf: "+format, args...))
}

type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrRefused }
