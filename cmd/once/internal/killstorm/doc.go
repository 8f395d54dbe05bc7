// Package killstorm exposes a payments service to ten years of network and machine faults within seconds: lost answers, duplicates, requests cut off
// half-way, a client that uses a key twice, and kill -9. Then it counts the money.
//
// The service is a process of its own, and neither the service nor its clients judge: after the last server is dead, the effects are read from the
// database.
//
// The seed decides which fault meets which operation. It cannot decide when a process dies within the microseconds of a commit, so no two storms are
// the same.
package killstorm
