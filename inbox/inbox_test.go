package inbox

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/seal"
	"github.com/oncelib/once/internal/base/traceparent"
	"github.com/oncelib/once/message"
)

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{Consumer: "billing", Redelivery: time.Hour}
	if c := good.complete(); c.check() != nil || c.Retain != 7*24*time.Hour || c.Policy.Attempts != 10 || c.HandlerTimeout != 30*time.Second {
		t.Errorf("%+v", c)
	}
	for name, edit := range map[string]func(c *Config){
		"no consumer":      func(c *Config) { c.Consumer = "" },
		"long consumer":    func(c *Config) { c.Consumer = strings.Repeat("x", 65) },
		"short retention":  func(c *Config) { c.Retain = time.Minute },
		"short for one":    func(c *Config) { c.RetainOf = map[string]time.Duration{"a": time.Minute} },
		"negative for one": func(c *Config) { c.RetainOf = map[string]time.Duration{"a": -1} },
		"no such order":    func(c *Config) { c.Order = 3 },
		"negative bound":   func(c *Config) { c.HandlerTimeout = -1 },
	} {
		c := good
		edit(&c)
		c = c.complete()
		if err := c.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzMessageBecomesStorable(f *testing.F) {
	f.Add("id", "source", "topic", "key", "type", "trace", int64(1), []byte("payload"), "name", "value")
	f.Add("", "\xff", "a\x00b", strings.Repeat("ü", 200), "\n", "\x7f", int64(-1), []byte(nil), "\xff", strings.Repeat("x", message.MaxReceivedHeaders))
	f.Fuzz(func(t *testing.T, id, source, topic, key, kind, trace string, seq int64, payload []byte, name, value string) {
		m := message.Message{ID: id, Source: source, Topic: topic, Key: key, Type: kind, Trace: trace, Seq: seq, Payload: payload, Headers: map[string]string{name: value}}
		c := (&Config{Consumer: "c"}).complete()
		checked, err := c.checked(m)
		s := storable(m)
		if _, again := c.checked(s); again != nil {
			t.Errorf("what is stored of %+v is %+v: %v", m, s, again)
		}
		if err == nil && (s.ID != checked.ID || s.Source != checked.Source || s.Topic != checked.Topic || s.Key != checked.Key || s.Type != checked.Type || s.Seq != checked.Seq) {
			t.Errorf("a good message %+v is stored as %+v", checked, s)
		}
		if t := s.Trace; !utf8.ValidString(t) || len(t) > traceparent.Max {
			panic(t)
		}
		headers, err := seal.EncodeHeaders(m.Headers)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := seal.DecodeHeaders(headers); err != nil || utf8.ValidString(name+value) && back[name] != value {
			t.Errorf("%q, %v", back, err)
		}
		if two := storable(m); two.ID != s.ID {
			t.Errorf("two letters of one message: %q and %q", two.ID, s.ID)
		}
	})
}

func FuzzDecodeHeaders(f *testing.F) {
	f.Add([]byte(`{"a":"b"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := seal.DecodeHeaders(b)
		if err != nil {
			return
		}
		if encoded, err := seal.EncodeHeaders(h); err != nil {
			t.Errorf("%q, %v", encoded, err)
		}
	})
}
