package bugbank

// archiveMutants are bugs of package retention/archive.
var archiveMutants = []Mutant{
	{
		Name:  "a segment is listed before it is flushed",
		Edits: []Edit{{In: "(*Writer).write", Old: "buffer.Flush, f.Sync}", New: "buffer.Flush}"}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name:  "a segment with rows of other tables is marked for earlier releases",
		Edits: []Edit{{In: "archive.versionOf", Old: "return 2", New: "return 1"}},
		Tests: in("retention/archive", "TestVersion2HasRowsOfOtherTables"),
	},
	{
		Name:  "the name of a segment is not flushed",
		Edits: []Edit{{In: "(*Writer).write", Old: "return s, w.fs.syncDir(w.dir)", New: "return s, nil"}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name: "rows are deleted before the manifest is flushed",
		Edits: []Edit{{In: "(*Writer).list", Old: `if err := w.manifest.Sync(); err != nil {
	return err
}`, New: ""}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name:  "a manifest is replaced by one that is not flushed",
		Edits: []Edit{{In: "(*Writer).replace", Old: "err = f.Sync()", New: ""}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name:  "what was renamed is listed before its name is flushed",
		Edits: []Edit{{In: "(*Writer).mended", Old: "if err := w.fs.syncDir(w.dir); err != nil {", New: "if err := error(nil); err != nil { // before"}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name:  "the folder of an archive is not flushed",
		Edits: []Edit{{In: "makeDir", Old: "return fs.syncDir(filepath.Dir(dir))", New: "return nil"}},
		Tests: in("retention/archive", "TestPowerCut"),
	},
	{
		Name:  "the manifest of an archive has no lock",
		Edits: []Edit{{In: "archive.(osFiles).open", Old: "if !lockedfile.Supported {", New: "if lockedfile.Supported {"}},
		Tests: in("retention/archive", "TestNoSecondWriter"),
	},
}
