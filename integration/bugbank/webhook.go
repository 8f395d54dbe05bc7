package bugbank

// webhookMutants believe senders that have signed nothing, apply an event twice, or send requests into their own network.
var webhookMutants = []Mutant{
	{
		Name:  "a webhook with any signature is genuine",
		Edits: []Edit{{In: "webhook.(*Verifier).authenticate", Old: "case !valid:", New: "case !valid && s.n == 0:"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "only the last secret of a webhook counts",
		Edits: []Edit{{In: "webhook.(*Verifier).authenticate", Old: "matches := k.matches(f, &s)\nvalid = valid || matches", New: "valid = k.matches(f, &s)"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "a copy of an old webhook is genuine",
		Edits: []Edit{{In: "webhook.(*Verifier).authenticate", Old: "s.stamp != \"\" && !v.isFresh(s.stamp)", New: "s.stamp == \"\" && !v.isFresh(\"0\") && !valid"}},
		Tests: in("webhook", "TestReceiveAnswers"),
	},
	{
		Name:  "a webhook of the future is genuine",
		Edits: []Edit{{In: "webhook.(*Verifier).isFresh", Old: "now().Sub(at).Abs()", New: "now().Sub(at)"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "a part of the body of a webhook is taken for its timestamp",
		Edits: []Edit{{In: "webhook.(*signed).read", Old: "strings.Contains(s.id, \".\")", New: "strings.Contains(s.id, \"..\")"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "the first of two headers of a webhook counts",
		Edits: []Edit{{In: "webhook.(place).read", Old: "len(lines) == 1", New: "len(lines) > 0"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "signatures of a webhook beyond the bound are ignored",
		Edits: []Edit{{In: "webhook.(*signed).add", Old: "if s.n == maxSignatures {\nreturn false", New: "if s.n == maxSignatures {\nreturn true"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "a pooled HMAC begins with the bytes of the request before",
		Edits: []Edit{{In: "webhook.(*key).sum", Old: "m.hash.Reset()", New: "m.sum = nil"}},
		Tests: in("webhook", "TestVerifyAtOnce"),
	},
	{
		Name:  "what is behind the body of a webhook is not signed",
		Edits: []Edit{{In: "webhook.(*signed).appendParts", Old: "behind != tail", New: "behind != tail || tail"}},
		Tests: in("webhook", "TestVectors"),
	},
	{
		Name:  "an ID is signed that makes two requests of one signature",
		Edits: []Edit{{In: "webhook.(*Signer).Sign", Old: "r == '.' ||", New: ""}},
		Tests: in("webhook", "TestSignRefuses"),
	},
	{
		Name:  "a time that is not signed counts",
		Edits: []Edit{{In: "webhook.(Scheme).check", Old: "(seen[partStamp] > 0) != (s.Timestamp != \"\")", New: "seen[partStamp] > 0 && s.Timestamp == \"\""}},
		Tests: in("webhook", "TestInvalidSchemes"),
	},
	{
		Name:  "an inbox forgets an event that its sender still sends",
		Edits: []Edit{{In: "webhook.(*Verifier).check", Old: "case retain < v.form.redelivery:", New: "case retain < 0:"}},
		Tests: in("webhook", "TestReceiveNeedsRetention"),
	},
	{
		Name:  "an event without an ID is applied",
		Edits: []Edit{{In: "webhook.(*Verifier).decode", Old: "if m.ID == \"\" {", New: "if m.ID == \"\" && m.Topic == \"\" {"}},
		Tests: in("webhook", "TestReceiveWithoutID"),
	},
	{
		Name:  "a webhook keeps headers that belong to its delivery",
		Edits: []Edit{{In: "webhook.headersOf", Old: "message.IsOfDelivery(name), ", New: "message.IsOfDelivery(value), "}},
		Tests: in("webhook", "TestReceiveKeepsNoSignature"),
	},
	{
		Name:  "a forged challenge is answered",
		Edits: []Edit{{In: "receiver.(*receiver).ServeHTTP", Old: "if rc.cfg.Verify != nil {", New: "if rc.cfg.Verify != nil && (rc.cfg.Answer == nil || rc.cfg.Answer(body) == nil) {"}},
		Tests: in("webhook", "TestSlackChallenge"),
	},
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
		Tests: in("webhook/ssrf", "TestProxy"),
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
		Tests: in("webhook/ssrf", "TestAddresses"),
	},
	{
		Name:  "an answer of any length is read",
		Edits: []Edit{{In: "ssrf.(*roundTripper).RoundTrip", Old: "http.MaxBytesReader(nil, resp.Body, rt.most)", New: "http.MaxBytesReader(nil, resp.Body, rt.most*1000)"}},
		Tests: in("webhook/ssrf", "TestClientBounds"),
	},
}
