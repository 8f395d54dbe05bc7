// Package harness has what the tests of every capability need: a database of each kind, processes that do a part of a
// test, and the loop that kills them at one point after another. A test of a capability adds its tables, its plan
// and its judgement.
package harness
