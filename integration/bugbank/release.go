package bugbank

// releaseMutants are bugs of package internal/release.
var releaseMutants = []Mutant{
	{
		Name:  "an archive of a release without completions passes",
		Edits: []Edit{{In: "(target).complete", Old: "if len(want) > 0 {", New: "if len(want) > 99 {"}},
		Tests: []Killer{{Package: "internal/release", Test: "TestArchivesAreReproducible"}},
	},
	{
		Name:  "a binary of another system passes",
		Edits: []Edit{{In: "(target).runsThere", Old: "if !is {", New: `if !is && t.system == "" {`}},
		Tests: []Killer{{Package: "internal/release", Test: "TestSnapshotChecks"}},
	},
	{
		Name:  "a binary whose sum is wrong passes",
		Edits: []Edit{{In: "(*snapshot).check", Old: `fmt.Sprintf("%x  %s\n", sha256.Sum256(archive), t.archive())`, New: `fmt.Sprintf("%x  %s\n", sha256.Sum256(archive), t.archive())[64:]`}},
		Tests: []Killer{{Package: "internal/release", Test: "TestSnapshotChecks"}},
	},
	{
		Name:  "a release says nothing of what it changes",
		Edits: []Edit{{In: "tells", Old: `"\n"+section+"\n"`, New: `"\n"`}},
		Tests: []Killer{{Package: "internal/release", Test: "TestChangelogHasTheVersion"}},
	},
}
