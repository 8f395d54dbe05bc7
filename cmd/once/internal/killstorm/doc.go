// Package killstorm throws at a payments service what networks and machines throw at
// it in ten years, within seconds: lost answers, duplicates, requests cut off
// half-way, a client that uses a key twice, and kill -9. Then it counts the money.
//
// The service is a process of its own, and the judge is neither it nor its
// clients: once the last server is dead, the effects are read from the database.
//
// What is thrown at which operation follows from the seed. When a process dies
// within the microseconds of a commit does not: no two storms are the same.
package killstorm
