package rabbitmq

import (
	"strings"
	"testing"
)

// TestOpen: URLs that can be read, whose passwords are not told, and those that cannot.
func TestOpen(t *testing.T) {
	for to, name := range map[string]string{
		"amqp://host": "amqp://host",
		"amqp://user:secret@host:5672/shop?exchange=e": "amqp://user:xxxxx@host:5672/shop?exchange=e",
		"amqps://host/": "amqps://host/",
	} {
		d, err := Open(to)
		if err != nil {
			t.Errorf("%s: %v", to, err)
			continue
		}
		if d.Name != name {
			t.Errorf("%s is told as %s", to, d.Name)
		}
		d.Close()
	}
	for _, to := range []string{"amqp://", "amqp://user:secret@host:port"} {
		if _, err := Open(to); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
}
