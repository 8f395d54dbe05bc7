package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/oncelib/once/internal/base/printable"
)

// mode says where a message has its event.
type mode uint8

const (
	binary     mode = iota // in the headers; the body is the data of the event
	structured             // in the body
	batch                  // several events in the body
)

// contentMode returns the mode that a content type states, and the format of an event in the body.
func contentMode(contentType string) (m mode, format string) {
	media := mediaType(contentType)
	if format, is := strings.CutPrefix(media, "application/cloudevents+"); is {
		return structured, format
	}
	if strings.HasPrefix(media, "application/cloudevents-batch") {
		return batch, ""
	}
	if media == "application/cloudevents" {
		return structured, "" // its format is not known
	}
	return binary, ""
}

// mediaType returns a content type in lower case and without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(contentType string) bool {
	media := mediaType(contentType)
	return media == "" || strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}

// isBare reports whether the body is an event in structured mode, for a message whose headers have no attributes and no cloudevents content type.
func (d *decoder) isBare(body []byte) (has bool) {
	if len(d.keys) > 0 || d.has("id") || d.has("specversion") || !isJSON(d.m.Headers[contentType]) {
		return false
	}
	_ = eachMember(body, func(name string, _ json.RawMessage) error {
		if has = name == "specversion"; has {
			return io.EOF // readStructured reads the rest
		}
		return nil
	})
	return has
}

// readStructured reads an event in JSON. The content type of the message becomes the content type of the data.
func (d *decoder) readStructured(body []byte) {
	if !utf8.Valid(body) { // replacement characters would make two different IDs equal
		d.failf("the body is not a CloudEvent in JSON, because it is not valid UTF-8. Try: UTF-8, and data_base64 for binary data")
		return
	}
	var data, base64Data json.RawMessage
	err := eachMember(body, func(name string, value json.RawMessage) error {
		switch name {
		case "data":
			data = value
			return nil
		case "data_base64":
			base64Data = value
			return nil
		}
		return d.readMember(name, value)
	})
	if err != nil {
		d.failf("the body is not a CloudEvent in JSON: %w. Try: one object with specversion, id, source, type and data", err)
		return
	}
	delete(d.m.Headers, contentType)
	media := d.attributes["datacontenttype"]
	switch {
	case data != nil && base64Data != nil:
		d.failf("the event has both data and data_base64. Try: one of them")
	case base64Data != nil:
		if d.m.Payload, err = decodeBase64(base64Data); err != nil {
			d.failf("data_base64 is not valid base64: %w. Try: padded base64 in a string", err)
		}
	case data == nil:
		d.m.Payload = nil
	default:
		d.m.Payload = payloadOf(data, media)
		if media == "" {
			d.m.Headers[contentType] = "application/json"
		}
	}
}

// payloadOf returns data as JSON if its media type is JSON or unknown. Otherwise, if data is a JSON string, it returns the text of the string.
func payloadOf(data json.RawMessage, media string) []byte {
	var text string
	if !isJSON(media) && json.Unmarshal(data, &text) == nil {
		return []byte(text)
	}
	return data
}

func (d *decoder) readMember(name string, value json.RawMessage) error {
	switch value[0] {
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		if strings.ContainsRune(text, utf8.RuneError) && strings.Contains(strings.ToLower(string(value)), `\ud`) { // half of a surrogate pair would become a replacement character, as above
			return fmt.Errorf("the attribute %q contains an incomplete surrogate pair of Unicode", printable.Short(name))
		}
		d.attributes[name] = text
	case '{', '[':
		return fmt.Errorf("the attribute %q is an object or an array", printable.Short(name))
	default: // a number or a boolean
		d.attributes[name] = string(value)
	}
	return nil
}

func decodeBase64(value json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

var (
	errNoObject = errors.New("the JSON value is not an object")
	errMore     = errors.New("more text follows the JSON object")
)

// eachMember calls f for each member of the object in body that is not null. A repeated name is an error, because two readers could see
// two different events.
func eachMember(body []byte, f func(name string, value json.RawMessage) error) error {
	from := json.NewDecoder(bytes.NewReader(body))
	if open, err := from.Token(); err != nil || open != json.Delim('{') {
		return errNoObject
	}
	known := map[string]bool{}
	for from.More() {
		token, err := from.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder accepts only a string here
		var value json.RawMessage
		if err := from.Decode(&value); err != nil {
			return err
		}
		if known[name] {
			return fmt.Errorf("the object has the member %q twice", printable.Short(name))
		}
		known[name] = true
		if string(value) == "null" {
			continue
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := from.Token(); err != nil {
		return err
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}
