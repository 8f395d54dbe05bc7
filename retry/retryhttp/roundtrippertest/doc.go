// Package roundtrippertest tests HTTP clients that retry: which requests a client repeats and which not, when, and with which key and body. The
// package can test any [http.RoundTripper]:
//
//	func TestClient(t *testing.T) {
//		roundtrippertest.Run(t, roundtrippertest.Candidate{New: func(base http.RoundTripper) http.RoundTripper {
//			return &myclient.Transport{Base: base, Attempts: 3}
//		}})
//	}
//
// Every check starts its own servers on the loopback interface, and uses real connections. The function [Judge] returns the results of the checks
// as values, so that a program can compare clients.
package roundtrippertest
