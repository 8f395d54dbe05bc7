package simulate

import (
	"time"

	"github.com/oncelib/once/retry"
)

// Scenario is a service, its callers, and a fault.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Story string `json:"story"` // for the reader of a report

	Clients int           `json:"clients"`    // processes, each with a budget and a breaker of its own
	Rate    float64       `json:"rate"`       // intents a second, of all clients together
	Think   time.Duration `json:"think_ns"`   // not 0: each client has one caller, who rests this long after each intent; Rate is ignored
	Shared  bool          `json:"shared"`     // all clients are one process
	Timeout time.Duration `json:"timeout_ns"` // of an attempt

	Workers int           `json:"workers"`    // requests that the service serves at the same time
	Service time.Duration `json:"service_ns"` // mean time of serving one

	Length time.Duration `json:"length_ns"`
	From   time.Duration `json:"from_ns"` // begin of the fault
	To     time.Duration `json:"to_ns"`   // end of the fault

	// The fault.
	Slower float64       `json:"slower"`  // not 0: serving takes so many times as long
	Down   bool          `json:"down"`    // no connection can be made
	Stuck  float64       `json:"stuck"`   // this part of the intents hold their worker for Hang, with each attempt
	Hang   time.Duration `json:"hang_ns"` // see Stuck
	Fails  float64       `json:"fails"`   // this part of the attempts fail, at any time, at random

	silent  bool        // failing requests get no answer
	notices bool        // the service drops waiting requests whose client has given up
	refused retry.Class // the class of a failed connection; zero means transient
}

const (
	ms  = time.Millisecond
	sec = time.Second
)

// Preset returns the preset with that name.
func Preset(name string) (s Scenario, ok bool) {
	for _, s := range Presets() {
		if s.Name == name {
			return s, true
		}
	}
	return s, false
}

// Presets are an ordinary day and the classic failures.
func Presets() []Scenario {
	return []Scenario{
		{
			Name: "ordinary", Title: "An ordinary day",
			Story: "A service can serve 1,000 requests a second, gets 700 requests a second, and has no failure. " +
				"One attempt in a hundred fails, as on any day: a connection is reset, or a process starts again.",
			Clients: 20, Rate: 700, Timeout: sec, Workers: 10, Service: 10 * ms,
			Length: 60 * sec, From: 10 * sec, To: 50 * sec, Fails: 0.01,
		},
		{
			Name: "herd", Title: "The thundering herd after a dip",
			Story: "A service can serve 1,000 requests a second, and gets 700 requests a second. For ten seconds the service can serve only 300 requests a second. " +
				"The service also serves requests whose clients have given up, because the service does not check the age of queued requests. " +
				"After the ten seconds the service is as fast as before. Does the service recover?",
			Clients: 20, Rate: 700, Timeout: sec, Workers: 10, Service: 10 * ms,
			Length: 120 * sec, From: 30 * sec, To: 40 * sec, Slower: 1 / 0.3,
		},
		{
			Name: "slow", Title: "A slow dependency",
			Story: "Every request takes 100 ms, but for twenty seconds every request takes 600 ms. Clients wait only 400 ms. " +
				"The service completes each request, but the client has given up before, so no client uses the response.",
			Clients: 20, Rate: 700, Timeout: 400 * ms, Workers: 120, Service: 100 * ms,
			Length: 120 * sec, From: 30 * sec, To: 50 * sec, Slower: 6,
		},
		{
			Name: "pool", Title: "A pool that retries exhaust",
			Story: "One request in eighty waits for a locked row, and holds one of 50 connections for three seconds. " +
				"Without retries, the pool has enough connections. " +
				"But clients give up after half a second and retry, and each retry holds another connection for three seconds.",
			Clients: 20, Rate: 1000, Timeout: sec / 2, Workers: 50, Service: 10 * ms,
			Length: 120 * sec, From: 30 * sec, To: 50 * sec, Stuck: 1 / 80.0, Hang: 3 * sec,
		},
		{
			Name: "outage", Title: "A total outage",
			Story: "For thirty seconds every attempt to open a connection fails. " +
				"How many calls do retries save, and how many additional attempts do retries cost?",
			Clients: 20, Rate: 700, Timeout: sec, Workers: 10, Service: 10 * ms,
			Length: 120 * sec, From: 30 * sec, To: 60 * sec, Down: true,
		},
	}
}
