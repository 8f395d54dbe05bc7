package payments

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Stripe's limits; texts are counted in characters.
const (
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// metadata is the data that a client of Stripe attaches to an object.
type metadata map[string]string

// stored returns m as a JSON object.
func (m *metadata) stored() string {
	if *m == nil {
		*m = metadata{}
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // cannot fail: it has only texts
	}
	return string(b)
}

// Scan implements [sql.Scanner].
func (m *metadata) Scan(stored any) error {
	switch s := stored.(type) {
	case string:
		return json.Unmarshal([]byte(s), m)
	case []byte:
		return json.Unmarshal(s, m)
	}
	return fmt.Errorf("stored metadata are a %T", stored)
}

// isMetadata reports whether a parameter is metadata[KEY], or metadata alone.
func isMetadata(name string) bool { return name == "metadata" || strings.HasPrefix(name, "metadata[") }

// metadata returns the values of metadata[KEY]=VALUE. A key with an empty value, and metadata= as a whole, are removed, as in Stripe's API.
func (f *stripeForm) metadata() metadata {
	m := metadata{}
	for _, name := range sortedNames(f.values) {
		if !isMetadata(name) {
			continue
		}
		key, value := strings.TrimSuffix(strings.TrimPrefix(name, "metadata["), "]"), f.text(name)
		switch {
		case name == "metadata":
			if value != "" {
				f.refuse("", name, "Invalid object: metadata are given as metadata[KEY]=VALUE.")
			}
		case name != "metadata["+key+"]" || key == "" || strings.ContainsAny(key, "[]") || !printable(key):
			f.refuse("", name, "A metadata key is text on one line, without square brackets.")
		case utf8.RuneCountInString(key) > maxMetadataKey:
			f.refuse("", name, fmt.Sprintf("Metadata keys can have at most %d characters.", maxMetadataKey))
		case utf8.RuneCountInString(value) > maxMetadataValue:
			f.refuse("", name, fmt.Sprintf("Metadata values can have at most %d characters.", maxMetadataValue))
		case !printable(space.Replace(value)):
			f.refuse("", name, "Metadata values "+notPrintable+".")
		case value != "":
			m[key] = value
		}
	}
	if len(m) > maxMetadata {
		f.refuse("", "metadata", fmt.Sprintf("Metadata can have at most %d keys; there are %d.", maxMetadata, len(m)))
	}
	return m
}

var space = strings.NewReplacer("\n", "", "\r", "", "\t", "")
