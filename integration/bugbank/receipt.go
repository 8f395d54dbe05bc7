package bugbank

// receiptMutants are bugs of package gateway/receipt.
var receiptMutants = []Mutant{
	{
		Name:  "no tombstone is written, and what is absent passes for one",
		Edits: []Edit{{In: "receipt.(*Table).Settle", Old: "for range runs {", New: "for range runs - runs {"}, absentIsTombstone},
		Tests: onReceipts("TestReceiptContract$/^SQLite$"),
	},
	{
		Name: "a receipt is looked up before the tombstone, and not behind it",
		Edits: []Edit{
			{In: "receipt.(*Table).Settle", Old: "var buried error", New: "r, found, err := t.Look(ctx, operation)\nvar buried error"},
			{In: "receipt.(*Table).Settle", Old: "r, found, err := t.Look(ctx, operation)\nswitch {", New: "if err == nil && !found && buried == nil {\nr, found = gateway.Receipt{Operation: operation, Tombstone: true}, true\n}\nswitch {"},
		},
		Tests: onReceipts("TestSettleWaitsForTheService$/^SQLite$"),
	},
	{
		Name:  "the error of a tombstone is swallowed, and a timeout passes for a tombstone",
		Edits: []Edit{absentIsTombstone},
		Tests: onReceipts("TestSettleGivesUpOnAServiceThatHangs$/^SQLite$"),
	},
	{
		Name: "a tombstone is read before its commit",
		Edits: []Edit{{
			In:  "receipt.(*Table).Settle",
			Old: "if _, buried = t.bury(ctx, operation, true); store.KindOf(buried)",
			New: "rows := int64(0)\nif rows, buried = t.bury(ctx, operation, true); rows > 0 {\nreturn gateway.Receipt{Operation: operation, Tombstone: true}, nil\n}\nif store.KindOf(buried)",
		}},
		Tests: onReceipts("TestEveryCallOfSettleFails$/^SQLite$"),
	},
	{
		Name:  "a lost answer of a tombstone ends a Settle, also if the tombstone stands",
		Edits: []Edit{{In: "receipt.(*Table).Settle", Old: "case found:", New: "case found && buried == nil:"}},
		Tests: onReceipts("TestEveryCallOfSettleFails$/^SQLite$"),
	},
	{
		Name:  "a tombstone takes the place of a receipt",
		Edits: []Edit{{In: "receipt.insertTombstone", Old: "KEEP(operation)", New: "UPSERT(operation) status = 0, tombstone = true"}},
		Tests: onReceipts("TestSettleWaitsForTheService$/^SQLite$"),
	},
	{
		Name:  "receipts are swept before the retention is over",
		Edits: []Edit{{In: "receipt.(*Table).sweep", Old: "retain.Microseconds(), sweepBatch", New: "retain.Microseconds() / 2, sweepBatch"}},
		Tests: onReceipts("TestReceiptsOutliveTheirRequests$/^SQLite$"),
	},
	{
		Name:  "tombstones are swept while their request may be under way",
		Edits: []Edit{{In: "receipt.checkRetain", Old: "retain < MinRetain", New: "retain < 0"}},
		Tests: onReceipts("TestReceiptsOutliveTheirRequests$/^SQLite$"),
	},
	{
		Name:  "a receipt that is forgotten is deleted",
		Edits: []Edit{{In: "receipt.(*Table).Forget", Old: "update once_receipt set header = null, body = null where operation = ?", New: "delete from once_receipt where operation = ?"}},
		Tests: onReceipts("TestReceiptsOutliveTheirRequests$/^SQLite$"),
	},
	{
		Name:  "an endpoint that answers of another operation is believed",
		Edits: []Edit{{In: "receipt.parseAnswer", Old: "a.Operation != operation", New: "a.Operation == \"\""}},
		Tests: in("gateway/receipt", "TestAnswersOfEndpoints"),
	},
	{
		Name:  "a stored receipt that cannot be used is logged like a failure that passes",
		Edits: []Edit{{In: "receipt.Handler", Old: "errors.Is(err, errUnusable)", New: "errors.Is(nil, errUnusable)"}},
		Tests: in("gateway/receipt", "TestHandlerLogsAReceiptThatCannotBeUsed"),
	},
	{
		Name:  "the client of an endpoint follows redirects",
		Edits: []Edit{{In: "receipt.NewClient", Old: "return http.ErrUseLastResponse", New: "return nil"}},
		Tests: in("gateway/receipt", "TestAnswersOfEndpoints"),
	},
	{
		Name:  "a field that is there twice is believed",
		Edits: []Edit{{In: "receipt.decodeAnswer", Old: "delete(fields, name.(string))", New: "_ = name.(string)"}},
		Tests: in("gateway/receipt", "TestAnswersOfEndpoints"),
	},
}
