package operate

import (
	"time"

	"github.com/oncelib/once/deadletter"
)

// Letter is a dead letter (a message whose delivery was given up after failures), in the form that people and scripts read.
type Letter struct {
	UID           string            `json:"uid"`
	Origin        string            `json:"origin"`
	Consumer      string            `json:"consumer"`
	Source        string            `json:"source"`
	EventID       string            `json:"event_id"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key"`
	Type          string            `json:"type"`
	Seq           int64             `json:"seq"`
	State         deadletter.State  `json:"state"`
	Class         string            `json:"class"`
	Error         string            `json:"error"`
	Cause         string            `json:"cause"`
	Attempts      int               `json:"attempts"`
	CreatedAt     time.Time         `json:"created_at,omitzero"`
	FirstFailedAt time.Time         `json:"first_failed_at"`
	DeadAt        time.Time         `json:"dead_at"`
	Redrive       string            `json:"redrive,omitempty"`
	RedriveAt     time.Time         `json:"redrive_at,omitzero"`
	ResolvedAt    time.Time         `json:"resolved_at,omitzero"`
	Reason        string            `json:"reason,omitempty"`
	Trace         string            `json:"trace,omitempty"`
	Encrypted     bool              `json:"encrypted"`
	Headers       map[string]string `json:"headers,omitempty"`  // only in the result of Letters.Show
	Payload       []byte            `json:"payload,omitempty"`  // only in the result of Letters.Show; base64
	Failures      []LetterFailure   `json:"failures,omitempty"` // only in the result of Letters.Show
}

// WithoutBody returns l without its payload and headers, which may contain data about customers.
func (l Letter) WithoutBody() Letter {
	l.Headers, l.Payload = nil, nil
	return l
}

// LetterFailure is one failed delivery of a message.
type LetterFailure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Node    string    `json:"node"`
	Error   string    `json:"error"`
	Trace   string    `json:"trace,omitempty"`
}

func letterOf(l deadletter.Letter) Letter {
	return Letter{
		UID: l.UID, Origin: l.Origin, Consumer: l.Consumer, Source: l.Source, EventID: l.EventID, Topic: l.Topic, Key: l.Key, Type: l.Type, Seq: l.Seq,
		State: l.State, Class: l.Class, Error: l.Error, Cause: l.Cause, Attempts: l.Attempts,
		CreatedAt: utc(l.CreatedAt), FirstFailedAt: utc(l.FirstFailedAt), DeadAt: utc(l.DeadAt), RedriveAt: utc(l.RedriveAt), ResolvedAt: utc(l.ResolvedAt),
		Redrive: l.Redrive, Reason: l.Reason, Trace: l.Trace, Encrypted: l.Encrypted, Headers: l.Headers, Payload: l.Payload,
	}
}

// LetterCause is a group of dead letters with the same cause.
type LetterCause struct {
	Letters  int64     `json:"letters"`
	Waiting  int64     `json:"waiting"` // the number of letters that an operator has chosen for a redrive and that were not tried yet
	Origin   string    `json:"origin"`
	Consumer string    `json:"consumer"`
	Topic    string    `json:"topic"`
	Class    string    `json:"class"`
	Cause    string    `json:"cause"`
	Oldest   time.Time `json:"oldest"`
	Newest   time.Time `json:"newest"`
	UID      string    `json:"uid"` // the UID of one of the letters
}

func causeOf(g deadletter.Group) LetterCause {
	return LetterCause{g.Letters, g.Waiting, g.Origin, g.Consumer, g.Topic, g.Class, g.Cause, utc(g.Oldest), utc(g.Newest), g.UID}
}

// Redrive is a group of dead letters that an operator has made due again, so that they are delivered again, and the progress of this group.
type Redrive struct {
	UID       string                  `json:"uid,omitempty"` // "" in a preview
	State     deadletter.RedriveState `json:"state,omitempty"`
	Who       string                  `json:"who,omitempty"`
	Reason    string                  `json:"reason,omitempty"`
	Rate      float64                 `json:"rate"`
	CreatedAt time.Time               `json:"created_at,omitzero"`
	Total     int64                   `json:"total"`   // the number of chosen letters; in a preview, the letters that would be chosen
	Waiting   int64                   `json:"waiting"` // the number of letters that were not tried yet
	Applied   int64                   `json:"applied"`
	Failed    int64                   `json:"failed"` // the number of letters that have failed again and are dead letters again
	Discarded int64                   `json:"discarded"`
	Left      int64                   `json:"left"`             // the number of letters that were not chosen, because they are so old that receivers may not recognise duplicates
	Canary    string                  `json:"canary,omitempty"` // the letter that is tried first; all other letters wait until this letter is applied
	More      bool                    `json:"more,omitempty"`   // true in a preview if not all letters were counted, so that the real values of Total and Left may be greater
}

func redriveOf(r deadletter.Redrive) Redrive {
	return Redrive{r.UID, r.State, r.Who, r.Reason, r.Rate, utc(r.CreatedAt), r.Total, r.Waiting, r.Applied, r.Failed, r.Discarded, r.Left, r.Canary, r.More}
}
