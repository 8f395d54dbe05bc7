package cloudevent_test

import (
	"fmt"
	"time"

	"github.com/oncelib/once/message"
	"github.com/oncelib/once/message/cloudevent"
)

func ExampleAttributes() {
	m := message.Message{
		Topic: "refunds", Key: "account 42", Type: "refund.succeeded", Source: "/payments",
		ID: "0190a2d1-7c54-7cc0-8f0a-3f1b2a9c4d5e", Seq: 7, CreatedAt: time.Date(2026, 11, 22, 8, 30, 0, 250_000_000, time.UTC),
		Headers: map[string]string{"content-type": "application/json"}, Payload: []byte(`{"id":"re_1"}`),
	}
	for name, value := range cloudevent.Attributes(&m) {
		fmt.Printf("ce-%s: %s\n", name, value)
	}
	// Output:
	// ce-specversion: 1.0
	// ce-id: 0190a2d1-7c54-7cc0-8f0a-3f1b2a9c4d5e
	// ce-source: /payments
	// ce-type: refund.succeeded
	// ce-time: 2026-11-22T08:30:00.25Z
	// ce-subject: account 42
	// ce-datacontenttype: application/json
	// ce-partitionkey: account 42
	// ce-sequence: 0000000000000000007
}
