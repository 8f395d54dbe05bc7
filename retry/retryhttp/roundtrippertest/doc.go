// Package roundtrippertest judges retrying HTTP clients: what they repeat, what they do
// not, when, and with which key and body. It works for any [http.RoundTripper]:
//
//	func TestClient(t *testing.T) {
//		roundtrippertest.Run(t, roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
//			return &myclient.Transport{Base: base, Attempts: 3}
//		}})
//	}
//
// Every check runs against servers of its own on loopback, over real connections.
// [Judge] returns the results as data, to compare clients.
package roundtrippertest
