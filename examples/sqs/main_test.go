package main

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// TestEnvelopeKeepsAllMetadata: a message with more metadata than SQS has attributes arrives as it was, and its key decides on its group.
func TestEnvelopeKeepsAllMetadata(t *testing.T) {
	sent := func(uuid, key string) *types.Message {
		m := message.NewMessage(uuid, []byte{0, 255})
		for _, name := range []string{"ce_id", "ce_type", "ce_source", "ce_time", "ce_sequence", "ce_specversion", "traceparent", "ce_traceparent", "content-type", "tenant"} {
			m.Metadata.Set(name, name+" of "+uuid)
		}
		if key != "" {
			m.Metadata.Set("ce_partitionkey", key)
		}
		marshaled, err := envelope{}.Marshal(m)
		if err != nil || len(marshaled.MessageAttributes) > 10 {
			t.Fatal(marshaled, err)
		}
		return marshaled
	}
	first := sent("1", "Zoë 7")
	got, err := envelope{}.Unmarshal(first)
	if err != nil || got.UUID != "1" || string(got.Payload) != "\x00\xff" || len(got.Metadata) != 11 || got.Metadata.Get("ce_partitionkey") != "Zoë 7" {
		t.Errorf("%+v, %v", got, err)
	}
	groups, ids := map[string]int{}, map[string]int{}
	for _, m := range []*types.Message{first, first, sent("2", "Zoë 7"), sent("3", "other"), sent("4", ""), sent("5", "")} {
		input, err := inGroups(t.Context(), "url", m)
		if err != nil || len(aws.ToString(input.MessageGroupId)) > 128 {
			t.Fatal(input, err)
		}
		groups[aws.ToString(input.MessageGroupId)]++
		ids[aws.ToString(input.MessageDeduplicationId)]++
	}
	if len(groups) != 4 || len(ids) != 5 {
		t.Errorf("%d groups, %d IDs", len(groups), len(ids))
	}
	strange, err := envelope{}.Unmarshal(&types.Message{Body: aws.String("no envelope")})
	if err != nil || string(strange.Payload) != "no envelope" {
		t.Errorf("%+v, %v", strange, err)
	}
}
