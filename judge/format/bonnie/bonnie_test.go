package bonnie

import (
	"testing"

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
