package operate_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/operate/doctor"
	"github.com/oncelib/once/operate/recorded"
	"github.com/oncelib/once/saga"
)

// TestFieldNames: the names of the fields in JSON are a contract with scripts. A name may be added, and none may change.
func TestFieldNames(t *testing.T) {
	for want, v := range map[string]any{
		"id topic key seq type source state paused attempts next_at failed_at error created_at sent_at trace operation encrypted payload_bytes headers payload": operate.Message{},
		"topic key reason since": operate.Pause{},
		"topic key waits_for since oldest reason node messages more stopped": operate.TopicWait{},
		"uid origin consumer source event_id topic key type seq state class error cause attempts created_at first_failed_at dead_at redrive redrive_at resolved_at " +
			"reason trace encrypted headers payload failures": operate.Letter{},
		"attempt at node error trace":                                                                            operate.LetterFailure{},
		"letters waiting origin consumer topic class cause oldest newest uid":                                    operate.LetterCause{},
		"uid state who reason rate created_at total waiting applied failed discarded left canary more":           operate.Redrive{},
		"consumer source topic key seq parked since dead event_id failed_attempts failed_at error":               operate.Gap{},
		"consumer topics keys dead parked since more":                                                            operate.InboxSummary{},
		"seq event_id type parked_at next_at":                                                                    operate.ParkedMessage{},
		"consumer source topic key seq next parked dropped dead changed":                                         operate.InboxChange{},
		"resolved already effect phases call call_id operation":                                                  operate.Decided{},
		"id at who action scope key_hash reason detail":                                                          operate.Entry{},
		"database dialect healthy warnings failures findings":                                                    doctor.Report{},
		"check level says try first runbook":                                                                     doctor.Finding{},
		"key method url body_bytes state reason since expires_at":                                                operate.Intent{},
		"closed open left held answers":                                                                          operate.Resumed{},
		"key url status":                                                                                         operate.ResumeAnswer{},
		"segments rows bytes damaged":                                                                            operate.Verified{},
		"file error":                                                                                             operate.DamagedSegment{},
		"rows took_ms error":                                                                                     operate.Pass{},
		"id to sent executed replayed refused unanswered bodies_equal answers":                                   recorded.Report{},
		"round status outcome body_sha256 same_body error":                                                       recorded.Answer{},
		"id step state topic key seq type paused created_at sent_at attempts error letter inbox sent operation":  operate.Event{},
		"tenant deliveries deliveries_cut":                                                                       operate.Sent{},
		"endpoint event type state created_at due_at failures last_attempt operation":                            operate.SentDelivery{},
		"scope key key_hash":                                                                                     operate.OperationName{},
		"event_id consumer source state received_at applied_at by_number letter failed_attempts failed_at error": operate.InboxEvent{},
		"events events_cut steps":                                                                                operate.Trail{},
		"step state failure key input result events repeats until checked cancels":                               saga.StepStatus{},
		"items next cut": operate.Page[int]{},
		"attempts attempts_total attempts_dropped audit": operate.Timeline{},
		"found ambiguous key scope operation scopes_with_key phases call call_id attempts attempts_total attempts_dropped audit":                                          operate.KeyView{},
		"scope key name state since expires_at lease_until fence fingerprint result effect status result_bytes request_captured recovery_point external_call_begun trace": operate.Operation{},
	} {
		if got := strings.Join(fieldNames(reflect.TypeOf(v)), " "); got != want {
			t.Errorf("%T has the fields\n%s\nwant\n%s", v, got, want)
		}
	}
}

// fieldNames are those that encoding/json gives the fields of a struct.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fieldNames(f.Type)...)
		case name != "-":
			names = append(names, name)
		}
	}
	return names
}
