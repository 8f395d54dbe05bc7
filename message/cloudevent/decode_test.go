package cloudevent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// lines are headers as they arrive: name, value, name, value, ...
func lines(pairs ...string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if !yield(pairs[i], pairs[i+1]) {
				return
			}
		}
	}
}

// bindings are how the transports carry attributes.
var bindings = map[string]cloudevent.Binding{"HTTP": cloudevent.HTTP, "NATS": cloudevent.NATS, "Kafka and Watermill": cloudevent.Kafka}

func wanted(m *message.Message) message.Message {
	headers := maps.Clone(m.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	return message.Message{
		ID: m.ID, Source: m.Source, Key: m.Key, Type: m.Type, Seq: m.Seq, Payload: m.Payload, Headers: headers,
		Trace: m.Trace, CreatedAt: m.CreatedAt,
	}
}

// TestRoundTrip: what an outbox sends is what an inbox receives, over every transport.
func TestRoundTrip(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	const id = "0194b5e0-7f00-7000-8000-000000000001"
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for name, m := range map[string]message.Message{
		"everything": {
			ID: id, Source: "payments", Type: "refund.succeeded", Key: "account-7", Seq: 1 << 62, Payload: every, CreatedAt: at, Trace: trace,
			Headers: map[string]string{"content-type": "application/json; charset=utf-8", "tenant": "a b=c;d", "x-empty": "", "x-percent": "%zz"},
		},
		"little":  {ID: id, Source: "s", Type: "t"},
		"no key":  {ID: id, Source: "s", Type: "t", Payload: []byte("{}"), CreatedAt: at},
		"unusual": {ID: id, Source: "/source?x=%41", Type: "test.ünusual", Key: `Zoë "50 %" 日本`, Seq: 1},
		"quoted":  {ID: id, Source: `"s"`, Type: `"\"`, Key: `"`, Seq: 3},
		"marker":  {ID: id, Source: "s", Type: message.TypeSkipped, Key: "k", Seq: 7, CreatedAt: at},
		"longest": {ID: id, Source: strings.Repeat("s", 255), Type: strings.Repeat("%", 255), Key: strings.Repeat("é", 127), Seq: 1, Headers: map[string]string{"x": strings.Repeat("y", message.MaxHeaders-1)}},
	} {
		for over, b := range bindings {
			t.Run(name+" over "+over, func(t *testing.T) {
				got, err := cloudevent.Decode(cloudevent.Headers(&m, b), b, m.Payload)
				if want := wanted(&m); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v\n got  %+v\n want %+v", err, got, want)
				}
			})
		}
	}
}

// TestDecodeEventsOfOtherSenders: events of other senders, and messages that are no events.
func TestDecodeEventsOfOtherSenders(t *testing.T) {
	const json = "application/cloudevents+json; charset=UTF-8"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		headers []string
		body    string
		want    message.Message
	}{
		"binary": {
			[]string{"CE-SpecVersion", "1.0", "Ce-Id", "1", "ce-source", "%E2%82%AC", "ce-type", `"a \"b\""`, "ce-time", "2026-01-02t04:04:05+01:00", "X", "1", "x", "2", "Content-Length", "3", "Proxy-Authorization", "secret", "Content-Type", "text/plain"},
			"abc",
			message.Message{ID: "1", Source: "€", Type: `a "b"`, CreatedAt: at, Payload: []byte("abc"), Headers: map[string]string{"x": "1, 2", "content-type": "text/plain"}},
		},
		"extensions": {
			[]string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "s", "ce-type", "t", "ce-subject", "blob/7", "ce-partitionkey", "k", "ce-sequence", "0012", "ce-dataschema", "https://example.com/%25", "ce-tenant", "t%207", "ce-bad-name", "x", "ce-traceparent", trace, "traceparent", "00-of-a-hop", "bytes", "\xff"},
			"",
			message.Message{ID: "1", Source: "s", Type: "t", Key: "k", Seq: 12, Trace: trace, Payload: []byte(""), Headers: map[string]string{"ce-subject": "blob/7", "ce-dataschema": "https://example.com/%", "ce-tenant": "t 7"}},
		},
		"subject is the key": {
			[]string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "s", "ce-type", "t", "ce-subject", "k"}, "",
			message.Message{ID: "1", Source: "s", Type: "t", Key: "k", Payload: []byte(""), Headers: map[string]string{}},
		},
		"long subject": {
			[]string{"ce-specversion", "1.0", "ce-id", "1", "ce-source", "s", "ce-type", "t", "ce-subject", strings.Repeat("k", 256)}, "",
			message.Message{ID: "1", Source: "s", Type: "t", Payload: []byte(""), Headers: map[string]string{"ce-subject": strings.Repeat("k", 256)}},
		},
		"bare percent signs": {
			[]string{"ce-specversion", "1.0", "ce-id", "50%", "ce-source", `"100% \"%zz\""`, "ce-type", "%%41%", "ce-tenant", "5% of %C3%A9%2"}, "",
			message.Message{ID: "50%", Source: `100% "%zz"`, Type: "%A%", Payload: []byte(""), Headers: map[string]string{"ce-tenant": "5% of é%2"}},
		},
		"a trace that is no text": {
			[]string{"idempotency-key", "1", "traceparent", "a\x00"}, "", message.Message{ID: "1", Payload: []byte(""), Headers: map[string]string{}},
		},
		"idempotency key":                 {[]string{"idempotency-key", `"a \"b"`, "traceparent", trace}, "x", message.Message{ID: `a "b`, Trace: trace, Payload: []byte("x"), Headers: map[string]string{}}},
		"bare key":                        {[]string{"Idempotency-Key", "k-1", "Nats-Msg-Id", "2"}, "x", message.Message{ID: "k-1", Payload: []byte("x"), Headers: map[string]string{}}},
		"NATS ID":                         {[]string{"Nats-Msg-Id", "a b"}, "x", message.Message{ID: "a b", Payload: []byte("x"), Headers: map[string]string{}}},
		"structured, JSON":                {[]string{"content-type", json, "ce-id", "repeated", "ce-id", "twice"}, `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a": [1]},"sequence":5,"partitionkey":"k","flag":true,"none":null,"time":"2026-01-02T03:04:05Z"}`, message.Message{ID: "1", Source: "s", Type: "t", Key: "k", Seq: 5, CreatedAt: at, Payload: []byte(`{"a": [1]}`), Headers: map[string]string{"content-type": "application/json", "ce-flag": "true"}}},
		"structured, text":                {[]string{"content-type", json, "x", "y"}, `{"data":"a\u00e9","datacontenttype":"text/plain","specversion":"1.0","id":"1","source":"s","type":"t"}`, message.Message{ID: "1", Source: "s", Type: "t", Payload: []byte("aé"), Headers: map[string]string{"content-type": "text/plain", "x": "y"}}},
		"structured, XML that is no text": {[]string{"content-type", json}, `{"data":{},"datacontenttype":"application/xml","specversion":"1.0","id":"1","source":"s","type":"t"}`, message.Message{ID: "1", Source: "s", Type: "t", Payload: []byte("{}"), Headers: map[string]string{"content-type": "application/xml"}}},
		"structured, a string as JSON":    {[]string{"content-type", json}, `{"data":"a","datacontenttype":"application/problem+json;x=y","specversion":"1.0","id":"1","source":"s","type":"t"}`, message.Message{ID: "1", Source: "s", Type: "t", Payload: []byte(`"a"`), Headers: map[string]string{"content-type": "application/problem+json;x=y"}}},
		"structured, bytes":               {[]string{"content-type", json}, `{"data_base64":"/w==","specversion":"1.0","id":"1","source":"s","type":"t"}`, message.Message{ID: "1", Source: "s", Type: "t", Payload: []byte{0xff}, Headers: map[string]string{}}},
		"structured, nothing":             {[]string{"content-type", json}, ` {"data":null,"specversion":"1.0","id":"1","source":"s","type":"t"} `, message.Message{ID: "1", Source: "s", Type: "t", Headers: map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudevent.Decode(lines(c.headers...), cloudevent.HTTP, []byte(c.body))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v\n got  %+v\n want %+v", err, got, c.want)
			}
		})
	}
}

// TestEventsOfTheSDK: what the official SDK for Go has sent to a NATS server. Its senders nats/v2, nats_jetstream/v2 and /v3, at
// commit d6f40309 of June 2026, have each sent an event with JSON and one with bytes, and the messages of the stream were
// written to the file. Over another transport an event in JSON must name its content type.
func TestEventsOfTheSDK(t *testing.T) {
	text, err := os.ReadFile("testdata/sdk_nats.json")
	var all []struct {
		Sender  string
		Headers map[string][]string
		Data    []byte
	}
	if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil || len(all) != 10 {
		t.Fatal(len(all), err)
	}
	for i, sent := range all {
		var pairs []string
		for name, values := range sent.Headers {
			pairs = append(pairs, name, values[0])
		}
		want := message.Message{
			ID: strconv.Itoa(i), Source: "https://example.com/shop", Type: "com.example.refund", Key: "50% of order 7", CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Payload: []byte(`{"amount":700}`), Headers: map[string]string{"content-type": "application/json", "ce-tenant": "Zoë"},
		}
		if strings.HasSuffix(sent.Sender, "octet-stream") {
			want.Payload, want.Headers["content-type"] = []byte{0, 255, 1}, "application/octet-stream"
		}
		if got, err := cloudevent.Decode(lines(pairs...), cloudevent.NATS, sent.Data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got  %+v\n want %+v", sent.Sender, err, got, want)
		}
		if m, err := cloudevent.Decode(lines(pairs...), cloudevent.HTTP, sent.Data); !strings.Contains(sent.Sender, "binary") && m.Type != "" {
			t.Errorf("%s: an event over HTTP: %v", sent.Sender, err)
		}
	}
}

// TestNoEventOverNATS: a message that names itself, or whose body is no event, stays what it is.
func TestNoEventOverNATS(t *testing.T) {
	const event = `{"specversion":"1.0","id":"1","source":"s","type":"t"}`
	for body, headers := range map[string][]string{
		event:                   {"Idempotency-Key", "7"},
		event + " ":             {"Nats-Msg-Id", "7", "content-type", "text/plain"},
		`{"id":"1","type":"t"}`: {"Nats-Msg-Id", "7"},
		`[` + event + `]`:       {"Nats-Msg-Id", "7", "content-type", "application/json"},
		`{"data":` + event:      {"Nats-Msg-Id", "7"},
		"":                      {"Nats-Msg-Id", "7"},
	} {
		if m, err := cloudevent.Decode(lines(headers...), cloudevent.NATS, []byte(body)); err != nil || m.ID != "7" || m.Type != "" || string(m.Payload) != body {
			t.Errorf("%s: %v, %+v", body, err, m)
		}
	}
}

// TestMalformedEventsAreNamed: what is wrong is named, with what to do, and the rest of the message is there for its dead letter.
func TestMalformedEventsAreNamed(t *testing.T) {
	event := func(changes ...string) []string {
		all := map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}
		for i := 0; i < len(changes); i += 2 {
			if all[changes[i]] = changes[i+1]; changes[i+1] == "" {
				delete(all, changes[i])
			}
		}
		var headers []string
		for name, value := range all {
			headers = append(headers, name, value)
		}
		return headers
	}
	const json, complete = "application/cloudevents+json", `"specversion":"1.0","id":"1","source":"s","type":"t"`
	for name, c := range map[string]struct {
		headers   []string
		body      string
		says      string
		withoutID bool
	}{
		"nothing":               {nil, "x", "no ID", true},
		"no id":                 {event("ce-id", ""), "", "ce-id is missing", true},
		"no source":             {event("ce-source", ""), "", "ce-source is missing", false},
		"no type":               {event("ce-type", ""), "", "ce-type is missing", false},
		"no version":            {event("ce-specversion", ""), "", `ce-specversion is ""`, false},
		"version":               {event("ce-specversion", "0.3"), "", `"0.3"`, false},
		"long id":               {event("ce-id", strings.Repeat("x", 256)), "", "256 bytes", true},
		"id with a line break":  {event("ce-id", "a%0Ab"), "", "control characters", true},
		"id that is no text":    {event("ce-id", "%FF"), "", "not UTF-8", true},
		"extension of bytes":    {event("ce-tenant", "a%FF"), "", "ce-tenant", false},
		"extension of controls": {event("ce-tenant", "a%0Ab"), "", "ce-tenant", false},
		"media type of bytes":   {event("ce-datacontenttype", "\xff"), "", "ce-datacontenttype", false},
		"id twice":              {append(event(), "CE-ID", "2"), "", "twice", true},
		"time":                  {event("ce-time", "yesterday"), "", "RFC 3339", false},
		"far time":              {event("ce-time", "9999-12-31T23:59:59-01:00"), "", "RFC 3339", false},
		"sequence":              {event("ce-sequence", "A7"), "", "not a number", false},
		"sequence 0":            {event("ce-sequence", "0"), "", "not a number", false},
		"negative":              {event("ce-sequence", "-1"), "", "not a number", false},
		"large sequence":        {event("ce-sequence", "9223372036854775808"), "", "not a number", false},
		"long key":              {event("ce-partitionkey", strings.Repeat("x", 256)), "", "partitionkey", false},
		"long key of an order":  {event("ce-subject", strings.Repeat("x", 256), "ce-sequence", "1"), "", "subject", false},
		"headers":               {event("x", strings.Repeat("x", message.MaxReceivedHeaders)), "", "headers have", false},
		"empty idempotency key": {[]string{"idempotency-key", ""}, "", "empty", true},
		"half of a key":         {[]string{"idempotency-key", `"a`}, "", "malformed", true},
		"long idempotency key":  {[]string{"idempotency-key", strings.Repeat("x", 256)}, "", "bytes", true},
		"two idempotency keys":  {[]string{"idempotency-key", "1", "Idempotency-Key", "1"}, "", "twice", true},
		"empty NATS ID":         {[]string{"Nats-Msg-Id", ""}, "", "empty", true},
		"batch":                 {[]string{"content-type", "application/cloudevents-batch+json"}, "[]", "not supported", true},
		"other format":          {[]string{"content-type", "application/cloudevents+avro"}, "", "not supported", true},
		"no format":             {[]string{"content-type", "application/cloudevents"}, "{}", "not supported", true},
		"no JSON":               {[]string{"content-type", json}, "<", "not an object", true},
		"array":                 {[]string{"content-type", json}, "[]", "not an object", true},
		"empty object":          {[]string{"content-type", json}, "{}", "specversion", true},
		"cut":                   {[]string{"content-type", json}, `{` + complete, "not a CloudEvent in JSON", false},
		"more":                  {[]string{"content-type", json}, `{` + complete + `}{}`, "follows", false},
		"JSON of bytes":         {[]string{"content-type", json}, "{" + `"tenant":"` + "\xff" + `",` + complete + "}", "not valid UTF-8", true},
		"half of a pair":        {[]string{"content-type", json}, `{"specversion":"1.0","source":"s","type":"t","id":"\uD800"}`, "surrogate", true},
		"escaped controls":      {[]string{"content-type", json}, `{"tenant":"\n",` + complete + `}`, "tenant", false},
		"a member twice":        {[]string{"content-type", json}, `{` + complete + `,"id":"2"}`, "twice", false},
		"attribute of JSON":     {[]string{"content-type", json}, `{"subject":{},` + complete + `}`, "object or an array", true},
		"both data":             {[]string{"content-type", json}, `{"data":1,"data_base64":"",` + complete + `}`, "both", false},
		"base64":                {[]string{"content-type", json}, `{"data_base64":"/w=",` + complete + `}`, "base64", false},
		"base64 of a number":    {[]string{"content-type", json}, `{"data_base64":1,` + complete + `}`, "base64", false},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := cloudevent.Decode(lines(c.headers...), cloudevent.HTTP, []byte(c.body))
			if err == nil {
				t.Fatalf("accepted: %+v", m)
			}
			if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, "Try: ") || strings.Contains(text, "\n") {
				t.Errorf("the error is %q", text)
			}
			if (m.ID == "") != c.withoutID {
				t.Errorf("ID %q", m.ID)
			}
			if string(m.Payload) != c.body {
				t.Errorf("payload %q", m.Payload)
			}
		})
	}
}

// TestEndlessHeader: lines of one name are not put together beyond the bound: that would take their number squared.
func TestEndlessHeader(t *testing.T) {
	all := func(yield func(name, value string) bool) {
		for _, name := range []string{"specversion", "id", "source", "type"} {
			if !yield("ce-"+name, "1.0") {
				return
			}
		}
		for range 200_000 {
			if !yield("x", "x") {
				return
			}
		}
	}
	m, err := cloudevent.Decode(all, cloudevent.HTTP, nil)
	if err == nil || !strings.Contains(err.Error(), "headers have 655") || m.Headers != nil {
		t.Errorf("%v, %d headers", err, len(m.Headers))
	}
}

// check fails the test unless m can be stored.
func check(t *testing.T, m *message.Message, err error) {
	t.Helper()
	for name, value := range map[string]string{"id": m.ID, "source": m.Source, "type": m.Type, "key": m.Key, "trace": m.Trace} {
		if text := message.CheckText(name, value, message.MaxText); text != nil && name != "trace" {
			t.Fatal(text)
		}
	}
	size := 0
	for name, value := range m.Headers {
		size += len(name) + len(value)
		if name == "" || !utf8.ValidString(name+value) || strings.ToLower(name) != name {
			t.Fatalf("header %q: %q", name, value)
		}
	}
	if size > message.MaxReceivedHeaders || m.Seq < 0 || m.CreatedAt.Year() > 9999 {
		t.Fatalf("%d bytes of headers, %+v", size, m)
	}
	if err == nil && m.ID == "" {
		t.Fatal("no ID")
	}
	if err != nil && !strings.Contains(err.Error(), "Try: ") {
		t.Fatal(err)
	}
}

// FuzzDecodedEventCanBeStored: whatever arrives can be stored or is refused, and what was decoded is decoded again after an outbox has sent it.
func FuzzDecodedEventCanBeStored(f *testing.F) {
	f.Add("ce-specversion\n1.0\nce-id\n1\nce-source\ns\nce-type\nt\nce-sequence\n01\nce-time\n2026-01-02T03:04:05Z", []byte("x"))
	f.Add("content-type\napplication/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1},"x":1.5e3}`))
	f.Add("content-type\napplication/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"/w==","datacontenttype":"a"}`))
	f.Add("nats-msg-id\n1", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","x":"50%"}`))
	f.Add("idempotency-key\n\"1\"\ntraceparent\n"+trace, []byte("{}"))
	f.Fuzz(func(t *testing.T, headers string, body []byte) {
		for _, b := range bindings {
			m, err := cloudevent.Decode(lines(strings.Split(headers, "\n")...), b, body)
			check(t, &m, err)
			if err != nil || m.Type == "" || strings.Contains(strings.ToLower(m.Headers["content-type"]), "application/cloudevents") {
				continue
			}
			own := maps.Clone(m.Headers)
			maps.DeleteFunc(own, func(name, _ string) bool { return strings.HasPrefix(name, "ce-") })
			sent := message.Message{ID: m.ID, Source: m.Source, Type: m.Type, Key: m.Key, Seq: m.Seq, Payload: m.Payload, Headers: own, Trace: m.Trace, CreatedAt: m.CreatedAt}
			again, err := cloudevent.Decode(cloudevent.Headers(&sent, b), b, sent.Payload)
			m.Headers = own
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%v\n got  %+v\n want %+v", err, again, m)
			}
		}
	})
}

// FuzzRoundTrip: every message that an outbox accepts arrives as it was sent.
func FuzzRoundTrip(f *testing.F) {
	f.Add("payments", "refund.succeeded", `Zoë "50 %"`, uint64(7), "x-tenant", "a=b", []byte("{}"))
	f.Add("%25", `"\"`, "", uint64(0), "content-type", "application/json", []byte(nil))
	f.Fuzz(func(t *testing.T, source, kind, key string, seq uint64, header, value string, payload []byte) {
		for _, text := range []string{source, kind, key} {
			if message.CheckText("text", text, message.MaxText) != nil {
				return
			}
		}
		token := func(r rune) bool {
			return unicode.IsControl(r) || r > '~' || strings.ContainsRune(` "(),/:;<=>?@[\]{}`, r)
		}
		header = strings.ToLower(header)
		if source == "" || kind == "" || header == "" || strings.ContainsFunc(header, token) || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) ||
			strings.Trim(value, " ") != value || len(header)+len(value) > message.MaxHeaders || strings.Contains(strings.ToLower(value), "application/cloudevents") {
			return
		}
		m := message.Message{ID: "0194b5e0-7f00-7000-8000-000000000001", Source: source, Type: kind, Key: key, Payload: bytes.Clone(payload), Trace: trace}
		m.Seq = int64(seq >> 1)
		switch { // names that an outbox refuses
		case header == "traceparent", header == "idempotency-key", header == "host", header == "content-length", header == "transfer-encoding",
			header == "connection", header == "keep-alive", header == "te", header == "trailer", header == "upgrade", header == "expect",
			strings.HasPrefix(header, "ce-"), strings.HasPrefix(header, "ce_"), strings.HasPrefix(header, "once-"), strings.HasPrefix(header, "nats-"), strings.HasPrefix(header, "proxy-"):
		default:
			m.Headers = map[string]string{header: value}
		}
		for _, b := range bindings {
			got, err := cloudevent.Decode(cloudevent.Headers(&m, b), b, m.Payload)
			if want := wanted(&m); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v\n got  %+v\n want %+v", err, got, want)
			}
		}
	})
}
