package outbox

// The tests with databases are in integration/outbox: "make test-of DIR=outbox" runs them after these.

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/store/sqlplane"
)

func good() message.Message {
	return message.Message{Topic: "t", Key: "k", Type: "type", Payload: []byte("p")}
}

// TestChecksRefuseTheWholeAdd: every bound has an error that says what to do, and nothing of the Add is stored.
func TestChecksRefuseTheWholeAdd(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, change := range map[string]func(*message.Message){
		"no topic":            func(m *message.Message) { m.Topic = "" },
		"long topic":          func(m *message.Message) { m.Topic = long },
		"topic with NUL":      func(m *message.Message) { m.Topic = "a\x00b" },
		"topic not UTF-8":     func(m *message.Message) { m.Topic = "\xff" },
		"long key":            func(m *message.Message) { m.Key = long },
		"key with a line":     func(m *message.Message) { m.Key = "a\nb" },
		"key with C1":         func(m *message.Message) { m.Key = "a\u0085b" },
		"no type":             func(m *message.Message) { m.Type = "" },
		"long type":           func(m *message.Message) { m.Type = long },
		"type with DEL":       func(m *message.Message) { m.Type = "a\x7f" },
		"skipped":             func(m *message.Message) { m.Type = message.TypeSkipped },
		"long source":         func(m *message.Message) { m.Source = long },
		"source with a blank": func(m *message.Message) { m.Source = "a b" },
		"source is no URI":    func(m *message.Message) { m.Source = "http://[" },
		"long trace":          func(m *message.Message) { m.Trace = long },
		"trace not UTF-8":     func(m *message.Message) { m.Trace = "\xff" },
		"long payload":        func(m *message.Message) { m.Payload = make([]byte, message.MaxPayload+1) },
		"ID":                  func(m *message.Message) { m.ID = "4711" },
		"ID with a brace":     func(m *message.Message) { m.ID = "{e7a1f5a0-0000-7000-8000-00000000000}" },
		"ID without hyphens":  func(m *message.Message) { m.ID = "e7a1f5a0-0000-7000-8000x000000000000" },
		"header name":         func(m *message.Message) { m.Headers = map[string]string{"a b": ""} },
		"header name é":       func(m *message.Message) { m.Headers = map[string]string{"é": ""} },
		"no header name":      func(m *message.Message) { m.Headers = map[string]string{"": ""} },
		"header twice":        func(m *message.Message) { m.Headers = map[string]string{"a": "", "A": ""} },
		"header with a line":  func(m *message.Message) { m.Headers = map[string]string{"a": "x\r\ny: z"} },
		"header with a blank": func(m *message.Message) { m.Headers = map[string]string{"a": "x "} },
		"header not UTF-8":    func(m *message.Message) { m.Headers = map[string]string{"a": "\xff"} },
		"reserved header":     func(m *message.Message) { m.Headers = map[string]string{"CE-ID": "1"} },
		"long headers":        func(m *message.Message) { m.Headers = map[string]string{"a": strings.Repeat("x", message.MaxHeaders)} },
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			change(&m)
			s := &fakeSQL{dialect: sqlplane.SQLite}
			box := New(s, Config{})
			err := box.Add(t.Context(), fakeTx{}, good(), m, good())
			if err == nil || !strings.Contains(err.Error(), "message 2 of 3: ") || !strings.Contains(err.Error(), "Try: ") || len(err.Error()) > 300 {
				t.Error(err)
			}
			if len(s.appended) > 0 || box.added.Load() != 0 {
				t.Errorf("%d statements were run", len(s.appended))
			}
		})
	}
	most := message.Message{
		Topic: long[1:], Key: long[1:], Type: long[1:], Source: long[1:], Trace: long[1:], ID: strings.ToUpper(once.NewKey()), Payload: make([]byte, message.MaxPayload),
		Headers: map[string]string{"A": strings.Repeat("ü", (message.MaxHeaders-10)/2), "b": "", "c": "x\ty"},
	}
	if err := New(&fakeSQL{dialect: sqlplane.SQLite}, Config{}).Add(t.Context(), fakeTx{}, most, message.Message{Topic: "ü", Type: "ü"}); err != nil {
		t.Error(err)
	}
}

// TestNewChecks its Config.
func TestNewChecks(t *testing.T) {
	for _, cfg := range []Config{{Source: "a b"}, {Source: "\x00"}, {RetainDelivered: -1}, {MaxPayload: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken", cfg)
				}
			}()
			New(&fakeSQL{dialect: sqlplane.SQLite}, cfg)
		}()
	}
}

// TestOneOrder: the messages of an Add are stored in the order of topics and keys, and those of
// one topic and key in the order in which they are given.
func TestOneOrder(t *testing.T) {
	for _, d := range []sqlplane.Dialect{sqlplane.PostgreSQL, sqlplane.SQLite, sqlplane.MySQL} {
		s := &fakeSQL{dialect: d}
		box := New(s, Config{})
		var messages []message.Message
		for i, where := range []string{"b/k", "a/l", "b/k", "a/", "a/k", "a/b/c", "a/k"} {
			topic, key, _ := strings.Cut(where, "/")
			messages = append(messages, message.Message{Topic: topic, Key: key, Type: fmt.Sprint(i)})
		}
		if err := box.Add(t.Context(), fakeTx{}, messages...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, a := range s.appended {
			if strings.Contains(a.SQL, "once_outbox ") {
				got = append(got, a.Args[4].(string))
				if a.Locks != "" && d != sqlplane.PostgreSQL && (s.appended[i-1].Locks != a.Locks || !strings.Contains(s.appended[i-1].SQL, "insert into once_stream")) {
					t.Errorf("the number of %s is not taken before it", a.Args[4])
				}
			}
		}
		if want := []string{"3", "5", "4", "6", "1", "0", "2"}; !slices.Equal(got, want) {
			t.Errorf("stored in the order %v, want %v", got, want)
		}
	}
}

// TestLocksDiffer: rows of two keys never have the same name, or their order would be that of the caller.
func TestLocksDiffer(t *testing.T) {
	s := &fakeSQL{dialect: sqlplane.PostgreSQL}
	if err := New(s, Config{}).Add(t.Context(), fakeTx{}, message.Message{Topic: "a/b", Key: "c", Type: "t"}, message.Message{Topic: "a", Key: "b/c", Type: "t"}); err != nil {
		t.Fatal(err)
	}
	if s.appended[0].Locks == s.appended[1].Locks {
		t.Errorf("both are %q", s.appended[0].Locks)
	}
}

// TestWhatIsStoredIsFrozen: the caller may change what it has given.
func TestWhatIsStoredIsFrozen(t *testing.T) {
	s := &fakeSQL{dialect: sqlplane.PostgreSQL}
	m := good()
	m.Headers = map[string]string{"a": "before"}
	messages := []message.Message{m}
	if err := New(s, Config{}).Add(t.Context(), fakeTx{}, messages...); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%s", s.appended[0].Args)
	m.Payload[0], m.Headers["a"], messages[0].Topic = 'x', "after", "other"
	if after := fmt.Sprintf("%s", s.appended[0].Args); after != before || m.ID != "" {
		t.Errorf("%s has become %s", before, after)
	}
}

// TestTraceOfMessageOrContext is that of the message, else that of the context if it can be stored.
func TestTraceOfMessageOrContext(t *testing.T) {
	type key struct{}
	cfg := Config{Trace: func(ctx context.Context) string { s, _ := ctx.Value(key{}).(string); return s }}
	for _, c := range []struct{ own, ctx, want string }{{"", "", ""}, {"own", "ctx", "own"}, {"", "ctx", "ctx"}, {"", "c\x00", ""}, {"", strings.Repeat("x", 256), ""}} {
		s := &fakeSQL{dialect: sqlplane.PostgreSQL}
		m := good()
		m.Trace = c.own
		if err := New(s, cfg).Add(context.WithValue(t.Context(), key{}, c.ctx), fakeTx{}, m); err != nil || s.appended[0].Args[9] != c.want {
			t.Errorf("%+v: %v, %v", c, s.appended, err)
		}
	}
}

// TestAddedParts: a message is stored in the part of its key, or of its ID if it has none, and relays of the process are told.
func TestAddedParts(t *testing.T) {
	s := &fakeSQL{dialect: sqlplane.SQLite}
	box := New(s, Config{})
	unordered := message.Message{Topic: "t", Type: "t", ID: "0190a2d1-7c54-7cc0-8f0a-3f1b2a9c4d5e"} // in another part
	if err := box.Add(t.Context(), fakeTx{}, good(), unordered); err != nil {
		t.Fatal(err)
	}
	want := uint64(1)<<partOf("t", "k") | 1<<partOf("t", unordered.ID)
	if box.added.Load() == 0 {
		t.Error("relays are not told that messages were added")
	}
	for _, a := range s.appended {
		if strings.Contains(a.SQL, "once_outbox ") && want&(1<<a.Args[0].(int64)) == 0 {
			t.Errorf("stored in part %d", a.Args[0])
		}
	}
}

// TestPartsNeverChange: relays of all releases must find a message in the same part. A topic has four of them, which are about even, and so are
// those of many topics.
func TestPartsNeverChange(t *testing.T) {
	for where, want := range map[[2]string][2]int{{"refunds", "42"}: {4, 46}, {"refunds", ""}: {4, 12}, {"", ""}: {8, 31}, {"ü", "x/y"}: {10, 58}} {
		if got := [2]int{partOf(where[0], where[1]), earlierPartOf(where[0], where[1])}; got != want {
			t.Errorf("%q is in part %d, want %d", where, got, want)
		}
	}
	var ofTopic, ofTopics [parts]int
	for i := range 100 * parts {
		ofTopic[partOf("refunds", fmt.Sprint(i))]++
		ofTopics[partOf(fmt.Sprint("topic", i), fmt.Sprint("key", i))]++
	}
	used := slices.DeleteFunc(ofTopic[:], func(n int) bool { return n == 0 })
	if least := slices.Min(used); len(used) != queuesOfTopic || least < 25*parts*8/10 {
		t.Errorf("the keys of a topic are in %d parts, at least %d of %d in each", len(used), least, 100*parts)
	}
	if least, most := slices.Min(ofTopics[:]), slices.Max(ofTopics[:]); least < 60 || most > 140 {
		t.Errorf("parts have %d to %d of 100 topics", least, most)
	}
}

// TestPartsOfOneKey: the messages of one key, which each of many topics has, are spread evenly over the parts.
func TestPartsOfOneKey(t *testing.T) {
	const topics = 1000
	for _, key := range []string{"", "k", "42", "order-1"} {
		for _, name := range []string{"topic%d", "refunds%d", "t%04d"} {
			var of [parts]int
			for i := range topics {
				of[partOf(fmt.Sprintf(name, i), key)]++
			}
			if least, most := slices.Min(of[:]), slices.Max(of[:]); least == 0 || most > 2*topics/parts {
				t.Errorf("%q in %s: parts have %d to %d of %d messages", key, name, least, most, topics)
			}
		}
	}
}

// TestSealedTextOpensOnlyInItsRow: what is encrypted opens in its own row and column only.
func TestSealedTextOpensOnlyInItsRow(t *testing.T) {
	one, err := once.NewEncrypter(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := once.NewEncrypter(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	m := good()
	m.ID = once.NewKey()
	m.Headers = map[string]string{"a": "secret"}
	store := func(m message.Message) stored {
		s := stored{message: m, encrypted: true}
		s.message.Headers = nil
		var err error
		if s.headers, s.message.Payload, err = sealed(one, &m); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := store(m)
	if got, err := s.open(one); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v, %v, want %+v", got, err, m)
	}
	plain := good()
	plain.ID = m.ID
	s = store(plain)
	if got, err := s.open(one); err != nil || !reflect.DeepEqual(got, plain) {
		t.Errorf("%+v, %v, want %+v", got, err, plain)
	}
	for name, damage := range map[string]func(*stored) once.Encrypter{
		"no key":        func(*stored) once.Encrypter { return nil },
		"another key":   func(*stored) once.Encrypter { return other },
		"another ID":    func(s *stored) once.Encrypter { s.message.ID = once.NewKey(); return one },
		"another topic": func(s *stored) once.Encrypter { s.message.Topic = "u"; return one },
		"another column": func(s *stored) once.Encrypter {
			s.headers, s.message.Payload = s.message.Payload, s.headers
			return one
		},
		"damaged headers": func(s *stored) once.Encrypter { s.headers = s.headers[1:]; return one },
		"no headers JSON": func(s *stored) once.Encrypter { s.headers, s.encrypted = []byte("{"), false; return one },
	} {
		s := store(m)
		e := damage(&s)
		got, err := s.open(e)
		if err == nil || got.Payload != nil || got.Headers != nil || !strings.Contains(err.Error(), s.message.ID) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if e != one && (!strings.Contains(err.Error(), "Try: ") || !strings.Contains(err.Error(), "key")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzHeadersAreReadAsTheyWere: headers that can be added are read as they were, with names in lower case, and others do
// no harm.
func FuzzHeadersAreReadAsTheyWere(f *testing.F) {
	f.Add("Content-Type", "application/json", "x", "\u2028<>&", []byte(`{"a":"b"}`))
	f.Add("a", " x", "A", "", []byte(`{"a":1}`))
	f.Add("", "", "\x00", "\xff", []byte(`null`))
	f.Fuzz(func(t *testing.T, name, value, name2, value2 string, raw []byte) {
		if h, err := seal.DecodeHeaders(raw); err != nil && h != nil {
			t.Errorf("%v and %v", h, err)
		}
		h, err := message.CheckHeaders(map[string]string{name: value, name2: value2})
		if err != nil {
			return
		}
		b, err := seal.EncodeHeaders(h)
		if err != nil {
			t.Fatal(err)
		}
		got, err := seal.DecodeHeaders(b)
		if err != nil || got[strings.ToLower(name)] != h[strings.ToLower(name)] || len(got) != len(h) || name != name2 && (got[strings.ToLower(name)] != value || got[strings.ToLower(name2)] != value2) {
			t.Errorf("%q are read as %q, %v", h, got, err)
		}
	})
}

// FuzzMessageTextIsChecked: a text that is taken has no control characters, is UTF-8 and is not too long.
func FuzzMessageTextIsChecked(f *testing.F) {
	f.Add("t", "k", "type", "source", "id", "trace")
	f.Add("\u0085", "\x00", "\xff", "a b", "E7A1F5A0-0000-7000-8000-000000000000", "\u009f")
	f.Fuzz(func(t *testing.T, topic, key, kind, source, id, trace string) {
		c := Config{Source: "once", MaxPayload: 1}
		m, err := c.checked(message.Message{Topic: topic, Key: key, Type: kind, Source: source, ID: id}, trace)
		if err != nil {
			if !strings.Contains(err.Error(), "Try: ") || strings.ContainsAny(err.Error(), "\x00\n") {
				t.Error(err)
			}
			return
		}
		for _, s := range []string{m.Topic, m.Key, m.Type, m.Source, m.ID, m.Trace} {
			if strings.ToValidUTF8(s, "") != s || strings.ContainsAny(s, "\x00\n\r\x7f\u0085") || len(s) > 255 {
				t.Errorf("%q is taken", s)
			}
		}
		if m.Topic == "" || m.Type == "" || m.Source == "" || len(m.ID) != 36 || m.ID != strings.ToLower(m.ID) {
			t.Errorf("%+v is taken", m)
		}
	})
}
