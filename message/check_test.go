package message_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/oncelib/once/message"
)

// TestCheckBoundsEachText: each text may have 255 bytes and no control character, and the error names it.
func TestCheckBoundsEachText(t *testing.T) {
	for name, of := range map[string]func(*message.Message) *string{
		"ID":     func(m *message.Message) *string { return &m.ID },
		"source": func(m *message.Message) *string { return &m.Source },
		"topic":  func(m *message.Message) *string { return &m.Topic },
		"key":    func(m *message.Message) *string { return &m.Key },
		"type":   func(m *message.Message) *string { return &m.Type },
		"trace":  func(m *message.Message) *string { return &m.Trace },
	} {
		for value, good := range map[string]bool{"": true, strings.Repeat("x", message.MaxText): true, strings.Repeat("x", message.MaxText+1): false, "a\x00": false, "\xff": false, "ü": true} {
			var m message.Message
			*of(&m) = value
			err := m.Check()
			if good != (err == nil) || err != nil && (!strings.Contains(err.Error(), "the "+name+" ") || !strings.Contains(err.Error(), "Try: ") || len(err.Error()) > 250) {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
	}
	if m := (message.Message{Seq: -1}); m.Check() == nil {
		t.Error("a negative Seq is taken")
	}
}

// TestCheckHeaders: names are in lower case in a copy; what belongs to the delivery, and what is too large in all, is refused.
func TestCheckHeaders(t *testing.T) {
	own := map[string]string{"Tenant": "7", "content-type": "text/plain"}
	got, err := message.CheckHeaders(own)
	if want := map[string]string{"tenant": "7", "content-type": "text/plain"}; err != nil || !maps.Equal(got, want) || own["Tenant"] != "7" {
		t.Errorf("%v, %v", got, err)
	}
	for _, name := range []string{"Traceparent", "Idempotency-Key", "ce-id", "ce_id", "Once-Topic", "Nats-Msg-Id", "Host", "Proxy-Authorization"} {
		if _, err := message.CheckHeaders(map[string]string{name: "x"}); err == nil || !message.IsOfDelivery(strings.ToLower(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for size, good := range map[int]bool{message.MaxHeaders - 2: true, message.MaxHeaders - 1: false} {
		if _, err := message.CheckHeaders(map[string]string{"a": strings.Repeat("x", size), "b": ""}); good != (err == nil) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
