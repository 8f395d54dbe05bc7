package storetest

import "testing"

func testLostAnswers(t *testing.T, o *operations) {}
