package bugbank

// cloudeventMutants are bugs of package message/cloudevent.
var cloudeventMutants = []Mutant{
	{
		Name:  "an attribute of an event may be there twice",
		Edits: []Edit{{In: "cloudevent.(*decoder).readAttribute", Old: "if d.has(name) {", New: "if d.has(name) && name == \"\" {"}},
		Tests: in("message/cloudevent", "TestMalformedEventsAreNamed"),
	},
	{
		Name:  "a sequence that is no number is an event without an order",
		Edits: []Edit{{In: "cloudevent.(*decoder).setSeq", Old: "d.failf(", New: "_ = fmt.Sprintf("}},
		Tests: in("message/cloudevent", "TestMalformedEventsAreNamed"),
	},
	{
		Name:  "an event in JSON over NATS must name its content type",
		Edits: []Edit{{In: "cloudevent.Decode", Old: "b.bare && d.isBare(body)", New: "b.bare && d.isBare(nil)"}},
		Tests: in("message/cloudevent", "TestEventsOfTheSDK"),
	},
	{
		Name:  "a message over NATS that names itself is taken for an event",
		Edits: []Edit{{In: "cloudevent.(*decoder).isBare", Old: "len(d.keys) > 0 || ", New: ""}},
		Tests: in("message/cloudevent", "TestNoEventOverNATS"),
	},
	{
		Name:  "a bare percent sign is lost",
		Edits: []Edit{{In: "cloudevent.Unescape", Old: "plain = append(plain, value[i])", New: "if value[i] != '%' {\nplain = append(plain, value[i])\n}"}},
		Tests: in("message/cloudevent", "TestDecodeEventsOfOtherSenders"),
	},
	{
		Name:  "an extension that is no text is left out",
		Edits: []Edit{{In: "cloudevent.(*decoder).text", Old: "d.failf(", New: "_ = fmt.Sprintf("}},
		Tests: in("message/cloudevent", "TestMalformedEventsAreNamed"),
	},
	{
		Name:  "JSON that is not UTF-8 is read with its bytes replaced",
		Edits: []Edit{{In: "cloudevent.(*decoder).readStructured", Old: "if !utf8.Valid(body) {", New: "if !utf8.Valid(nil) {"}},
		Tests: in("message/cloudevent", "TestMalformedEventsAreNamed"),
	},
}
