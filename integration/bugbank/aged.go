package bugbank

// agedMutants are bugs of package internal/sql/aged.
var agedMutants = []Mutant{
	{
		Name:  "what an archive refuses is deleted",
		Edits: []Edit{{In: "aged.Some", Old: "if err := archive(ctx, found); err != nil {", New: "if err := archive(ctx, found); err != nil && last.At.IsZero() {"}},
		Tests: onReceipts("TestReceiptsAreArchivedBeforeTheyGo$/^SQLite$"),
	},
	{
		Name: "rows are archived after they were deleted",
		Edits: []Edit{
			{In: "aged.Some", Old: "if err := archive(ctx, found); err != nil {", New: "if err := ctx.Err(); err != nil {"},
			{In: "aged.Some", Old: "return rows, last, more, err", New: "if err == nil {\nerr = archive(ctx, found)\n}\nreturn rows, last, more, err"},
		},
		Tests: hooksOn("TestSweepArchives$/^SQLite$"),
	},
	{
		Name:  "a batch has any number of bytes",
		Edits: []Edit{{In: "aged.Some", Old: "bytes > maxBytes", New: "bytes < 0"}},
		Tests: onReceipts("TestReceiptsAreArchivedBeforeTheyGo$/^SQLite$"),
	},
	{
		Name:  "young rows among old ones are archived",
		Edits: []Edit{{In: "aged.Some", Old: "read++; !s.Since.IsZero() && ", New: "read++; s.Since.IsZero() && !s.Since.IsZero() && "}},
		Tests: hooksOn("TestSweepArchives$/^SQLite$"),
	},
}
