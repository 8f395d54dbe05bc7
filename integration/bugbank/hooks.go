package bugbank

// hooksOn is a test on databases.
func hooksOn(test string) []Killer {
	return []Killer{{Module: "integration", Package: "hooks", Test: test}}
}

// hooksMutants send webhooks to those who must not have them, lose them, or let tenants do what is not theirs to do.
var hooksMutants = []Mutant{
	{
		Name:  "a webhook is stored outside of the transaction",
		Edits: []Edit{{In: "webhook.(*Hooks).Send", Old: "h.db.On(tx)", New: "h.db.Pool()"}},
		Tests: hooksOn("TestSendCommits$/^pgxstore"),
	},
	{
		Name:  "a disabled endpoint gets what is sent",
		Edits: []Edit{{In: "webhook.isWanted", Old: "e.disabled_at is null and (", New: "e.created_at is not null and ("}},
		Tests: hooksOn("TestSendCommits$/^SQLite$"),
	},
	{
		Name:  "an endpoint gets types that only begin like its pattern",
		Edits: []Edit{{In: "webhook.wanting", Old: `".* "`, New: `"."`}, {In: "webhook.wanting", Old: `" "+t+" "`, New: `" "+t`}},
		Tests: in("webhook", "FuzzTypes"),
	},
	{
		Name:  "data that the caller changes after Send is sent changed",
		Edits: []Edit{{In: "webhook.(*Config).seal", Old: "append([]byte{}, plain...)", New: "plain"}},
		Tests: in("webhook", "TestSendFreezes"),
	},
	{
		Name:  "secrets of webhooks are stored as they are",
		Edits: []Edit{{In: "webhook.(*Config).seal", Old: "c.Encrypter.Encrypt(plain, []byte(label))", New: "append([]byte(nil), plain...), error(nil)"}},
		Tests: hooksOn("TestNothingIsPlain$/^SQLite$"),
	},
	{
		Name:  "webhooks need no Encrypter",
		Edits: []Edit{{In: "webhook.(*Config).check", Old: "c.Encrypter == nil && !c.PlainSecrets", New: "c.Encrypter == nil && c.PlainSecrets && c.MaxData < 0"}},
		Tests: in("webhook", "TestNewNeedsAnEncrypter"),
	},
	{
		Name:  "endpoints that are created at once do not count each other",
		Edits: []Edit{{In: "webhook.(*Endpoints).Create", Old: "values (?, 1) UPSERT(tenant) changed = once_webhook_tenant.changed + 1", New: "values (?, 1) KEEP(tenant)"}},
		Tests: hooksOn("TestEndpointLimit$/^pgxstore"),
	},
	{
		Name:  "a secret that receivers have is lost by a second rotation",
		Edits: []Edit{{In: "webhook.(*Endpoints).Rotate", Old: `s.old != ""`, New: `s.old == to.Secret`}},
		Tests: hooksOn("TestRotate$/^SQLite$"),
	},
	{
		Name:  "a change overwrites another one",
		Edits: []Edit{{In: "webhook.(*Endpoints).Update", Old: "s.Version != e.Version", New: "s.Version < e.Version"}},
		Tests: hooksOn("TestChanges$/^SQLite$"),
	},
	{
		Name:  "the row of a deleted endpoint goes before a slow Send",
		Edits: []Edit{{In: "webhook.(sweeper).graves", Old: "graveFor.Microseconds()", New: "-graveFor.Microseconds()"}},
		Tests: hooksOn("TestDeleteBesideSend$/^SQLite$"),
	},
	{
		Name:  "a tenant reads endpoints of others",
		Edits: []Edit{{In: "webhook.(*Endpoints).find", Old: "e.uid = ? and e.tenant = ? and", New: "e.uid = ? and (e.tenant = ? or e.tenant <> '') and"}},
		Tests: hooksOn("TestOtherTenants$/^SQLite$"),
	},
	{
		Name:  "a tenant sends events of others",
		Edits: []Edit{{In: "webhook.(*Endpoints).Resend", Old: "join once_webhook_event v on v.tenant = e.tenant", New: "join once_webhook_event v on v.tenant <> ''"}},
		Tests: hooksOn("TestOtherTenants$/^SQLite$"),
	},
	{
		Name:  "a tenant reads what its endpoint has read",
		Edits: []Edit{{In: "webhook.(*api).shows", Old: "host != \"\" && slices", New: "host != \"\" || slices"}},
		Tests: hooksOn("TestTenantHandler$/^SQLite$"),
	},
	{
		Name:  "a tenant that changes the URL of an endpoint reads what the host before has answered",
		Edits: []Edit{{In: "webhook.(*Endpoints).Delivery", Old: "encrypted, cause, host from", New: "encrypted, cause, 'localhost' from"}},
		Tests: []Killer{{Module: "integration", Package: "hookrelay", Test: "TestAnswersOfTheHostBefore$/^SQLite$"}},
	},
	{
		Name:  "a page of another site changes endpoints",
		Edits: []Edit{{In: "webhook.(*api).serve", Old: "r.Method == http.MethodPost ||", New: ""}},
		Tests: hooksOn("TestTenantHandler$/^SQLite$"),
	},
	{
		Name:  "sending again begins the schedule of what waits from its start",
		Edits: []Edit{{In: "webhook.(*Endpoints).Resend", Old: "then 0 else once_webhook_delivery.attempts end", New: "then 0 else 0 end"}},
		Tests: hooksOn("TestResend$/^SQLite$"),
	},
	{
		Name: "what was delivered is replayed",
		Edits: []Edit{
			{In: "webhook.(*Endpoints).replay", Old: "a.endpoint = e.id and a.event = v.id", New: "a.endpoint = e.id and a.event = -v.id"},
			{In: "webhook.replayedInVain", Old: "attempts = 0", New: "attempts < 0"},
		},
		Tests: hooksOn("TestRecoverAndReplay$/^SQLite$"),
	},
	{
		Name:  "what is older than its retention stays",
		Edits: []Edit{{In: "webhook.sweep", Old: `"endpoint = ? and event < ?"`, New: `"endpoint = ? and event < 0 * ?"`}},
		Tests: hooksOn("TestSweep$/^SQLite$"),
	},
	{
		Name:  "a webhook is stored without the trace of the call",
		Edits: []Edit{{In: "webhook.(*Config).statements", Old: "c.append(list, d, e, trace, by)", New: "c.append(list, d, e, trace[:0], by)"}},
		Tests: hooksOn("TestSendTrace$/^SQLite$"),
	},
	{
		Name:  "the public key of a secret that was replaced is shown",
		Edits: []Edit{{In: "webhook.(*Endpoints).write", Old: "public_key = ?, encrypted = ?", New: "public_key = coalesce(nullif(public_key, ''), ?), encrypted = ?"}},
		Tests: hooksOn("TestPublicKey$/^SQLite$"),
	},
	{
		Name:  "a clock that was wrong has the sweep delete what is new",
		Edits: []Edit{{In: "webhook.(sweeper).removeOld", Old: `" < ?", append(bounds`, New: `" <> ?", append(bounds`}},
		Tests: hooksOn("TestClockHasJumped$/^SQLite$"),
	},
	{
		Name:  "what is recovered at a rate becomes due a hundred at a time",
		Edits: []Edit{{In: "webhook.(*Period).due", Old: "others+int64(i)", New: "others+int64(i-i)"}},
		Tests: hooksOn("TestRecoverAndReplay$/^SQLite$"),
	},
	{
		Name:  "attempts of a tenant are not forgotten",
		Edits: []Edit{{In: "webhook.(sweeper).rows", Old: `attempts, err = w.remove(ctx, "once_webhook_attempt", "event", "endpoint = ?", endpoint)`, New: `attempts, err = w.remove(ctx, "once_webhook_attempt", "event", "endpoint = -?", endpoint)`}},
		Tests: hooksOn("TestForget$/^SQLite$"),
	},
	{
		Name:  "what comes of an attempt on its way undoes a resend",
		Edits: []Edit{{In: "webhook.(*Relay).settleIn", Old: "of == (version{int64(d.attempts), string(d.cause)})", New: "of.attempts == int64(d.attempts)"}},
		Tests: []Killer{{Module: "integration", Package: "hookrelay", Test: "TestResendBesideAttempt$/^SQLite$"}},
	},
	{
		Name: "what was delivered during a replay is delivered again",
		Edits: []Edit{{In: "webhook.(*Endpoints).replay", Old: `if err == nil && n > 0 {
	var got int64`, New: `if err != nil {
	var got int64`}},
		Tests: hooksOn("TestReplayBesideSettle$/^pgxstore"),
	},
	{
		Name:  "a period of events begins after the last one that looks older, although a clock has jumped",
		Edits: []Edit{{In: "webhook.(*Endpoints).begin", Old: `events+">= ? order by id limit 1"`, New: `events+"< ? order by id desc limit 1"`}},
		Tests: hooksOn("TestReplayAfterClockJump$/^SQLite$"),
	},
	{
		Name:  "a period of events ends with the first one that looks later, although a clock has jumped",
		Edits: []Edit{{In: "webhook.(*Endpoints).begin", Old: `events+"< ? order by id desc limit 1"`, New: `events+">= ? order by id limit 1"`}},
		Tests: hooksOn("TestReplayAfterClockJump$/^SQLite$"),
	},
}
