package bugbank

// ssrfMutants are bugs of package webhook/ssrf.
var ssrfMutants = []Mutant{
	{
		Name:  "the address of a receiver is checked at creation only",
		Edits: []Edit{{In: "ssrf.(*Guard).Client", Old: "Control: g.Control", New: "Control: nil"}},
		Tests: in("webhook/ssrf", "TestNameChangesItsAddress"),
	},
	{
		Name:  "a guarded client follows redirects",
		Edits: []Edit{{In: "ssrf.(*Guard).Client", Old: "return http.ErrUseLastResponse", New: "return nil"}},
		Tests: in("webhook/ssrf", "TestRedirectsAreNotFollowed"),
	},
	{
		Name:  "a guarded client asks the proxy of the environment",
		Edits: []Edit{{In: "ssrf.(*Guard).Client", Old: "ForceAttemptHTTP2: true,", New: "ForceAttemptHTTP2: true,\nProxy: http.ProxyFromEnvironment,"}},
		Tests: in("webhook/ssrf", "TestProxyMustBeConfigured"),
	},
	{
		Name:  "a setting allows the metadata of a cloud",
		Edits: []Edit{{In: "ssrf.(*Guard).CheckAddr", Old: "m := find(metadata, a); m != nil", New: "m := find(metadata, a); m != nil && !g.allows(a)"}},
		Tests: in("webhook/ssrf", "TestAllowPrefixes"),
	},
	{
		Name:  "an IPv4 address inside of an IPv6 one is allowed",
		Edits: []Edit{{In: "ssrf.(*Guard).CheckAddr", Old: "case a.Is4In6():", New: "case a.Is4In6() && !g.allows(a):"}},
		Tests: in("webhook/ssrf", "TestAllowPrefixes"),
	},
	{
		Name:  "addresses of IPv6 that are not assigned are public",
		Edits: []Edit{{In: "ssrf.(*Guard).CheckAddr", Old: "a.Is6() && !global.Contains(a)", New: "a.Is6() && a.IsPrivate()"}},
		Tests: in("webhook/ssrf", "TestAddressesMustBePublic"),
	},
	{
		Name:  "an answer of any length is read",
		Edits: []Edit{{In: "ssrf.(*roundTripper).RoundTrip", Old: "http.MaxBytesReader(nil, resp.Body, rt.most)", New: "http.MaxBytesReader(nil, resp.Body, rt.most*1000)"}},
		Tests: in("webhook/ssrf", "TestClientBounds"),
	},
}
