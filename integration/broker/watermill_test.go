package broker

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	watermillhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncelib/once/broker/watermillbroker"
	oncemessage "github.com/oncelib/once/message"
	"github.com/oncelib/once/outbox/outboxtest"
)

// TestWatermillHTTP: a publisher of Watermill that goes over the network.
func TestWatermillHTTP(t *testing.T) {
	var mu sync.Mutex
	var arrived []oncemessage.Message
	var receiver *httptest.Server
	receiver = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		metadata := message.Metadata{}
		if err := json.Unmarshal([]byte(r.Header.Get(watermillhttp.HeaderMetadata)), &metadata); err != nil {
			t.Error(err)
		}
		if metadata.Get("refuse") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		m, err := outboxtest.Message(receiver.URL+r.URL.Path, "ce_", false, maps.All(metadata), body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		arrived = append(arrived, m)
	}))
	defer receiver.Close()
	publisher, err := watermillhttp.NewPublisher(watermillhttp.PublisherConfig{
		MarshalMessageFunc: watermillhttp.DefaultMarshalMessageFunc, DoNotLogResponseBodyOnServerError: true,
	}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	outboxtest.Run(t, outboxtest.Destination{
		Publisher: watermillbroker.Publisher(publisher), Topics: []string{receiver.URL + "/refunds", receiver.URL + "/payouts"},
		Received: func(*testing.T) []oncemessage.Message {
			mu.Lock()
			defer mu.Unlock()
			received := arrived
			arrived = nil
			return received
		},
		Reject: func(m *oncemessage.Message) { m.Headers = map[string]string{"refuse": "yes"} },
	})
}
