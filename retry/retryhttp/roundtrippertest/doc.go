// Package roundtrippertest tests retrying HTTP clients: which requests they repeat and which not, when, and with which key and body. It works for any
// [http.RoundTripper]:
//
//	func TestClient(t *testing.T) {
//		roundtrippertest.Run(t, roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
//			return &myclient.Transport{Base: base, Attempts: 3}
//		}})
//	}
//
// Every check starts its own servers on the loopback interface, and uses real connections. [Judge] returns the results as values, so that a program
// can compare clients.
package roundtrippertest
