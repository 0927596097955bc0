package bonnie

import (
	"testing"

	"bakeoff/judge/format"
	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// Figures of a table that may belong to several tests are not guessed.
func TestUnclearRows(t *testing.T) {
	const table = "Version  1.97       ------Sequential Output------ --Sequential Input- --Random-\n" +
		"Concurrency   1     -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--\n" +
		"Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP\n"
	const want = "x:4: the figures of the line cannot be assigned to their tests; use the line of CSV"
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "words joined by one blank",
			Text: table + "disk4 8G 871 97 71230 9 60117 8 2866 98 112874 6 601.2 5\n", Want: want},
		{Name: "a column too few blanks",
			Text: table + "disk4            8G  71230   9 60117   8  2866  98 112874   6 601.2   5\n", Want: want},
		{Name: "a longer name", Text: table + "a-long-name-of-a-disk 8G   871  97 71230   9\n", Want: want},
		{Name: "a figure too many",
			Text: table + "disk4            8G   871  97 71230   9 60117   8  2866  98 112874   6 601.2   5 1\n", Want: want},
	})
}

// The CSV of bonnie++ 1.03 has the machine, a size with a unit, and 25 fields.
func TestOldCSV(t *testing.T) {
	const large = "60531,87,113242,24,57483,12,55031,84,141221,12,+++++,+++"
	const small = "12000,30,+++++,+++,23000,40,12000,30,+++++,+++,5000,10"
	for line, want := range map[string]bool{
		"host,300M," + large + ",16:1000:0/10," + small: true, "host,8G:64k," + large + ",16," + small: true,
		"host,8G," + large + ",,,,,,,,,,,,,": true, "host,100," + large + ",16," + small: false,
		"host,8G," + large + "," + small: false,
	} {
		if got := format.SummaryError([]format.Format{New()}, "x", []byte(line+"\n")) != nil; got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// The tests of small files in a table are missing, and the advice is one that helps.
func TestSmallFilesOfTables(t *testing.T) {
	for version, want := range map[string]string{"1.03e": "use bonnie++ 1.96 or later",
		"2.00a": "use the line of CSV at the end of the output"} {
		formattest.LeftOut(t, New(), []formattest.Mistake{{Name: version,
			Text: "Version  " + version + "      ------Sequential Output------ --Sequential Input- --Random-\n" +
				"                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--\n" +
				"Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP\n" +
				"host             4G 60531  87 113242  24 57483  12 55031  84 141221  12 312.4   0\n" +
				"                    ------Sequential Create------ --------Random Create--------\n",
			Want: "x:1: bakeoff does not read the tests of small files from a table, because the table of " +
				"bonnie++ 2.00 has the number of files in place of the rates; " + want}})
	}
}
