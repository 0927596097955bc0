package audit

import (
	"cmp"
	"slices"
)

// Schema is the first line of every published table.
const Schema = "bakeoff/published/v1"

// Table is one published table: what its authors did, the figures that they
// printed, and what they said of them. Facts only: a table that is not in the
// article is not in here.
type Table struct {
	Schema     string     `yaml:"schema"`
	File       string     `yaml:"-"`
	Title      string     `yaml:"title"`
	Source     Source     `yaml:"source"`
	Experiment Experiment `yaml:"experiment"`
	Columns    []Column   `yaml:"columns"`
	Rows       []Row      `yaml:"rows"`
	Claims     []Claim    `yaml:"claims"`

	// Values that the checks need for every claim.
	bounds      map[*Column][]ceiling
	derivations map[*Column]derivation
}

// Source is where the table was published.
type Source struct {
	Title  string `yaml:"title" json:"title"`
	Author string `yaml:"author" json:"author,omitempty"`
	Date   string `yaml:"date" json:"date,omitempty"` // as far as it is known: 2004, 2004-04-07
	URL    string `yaml:"url" json:"url,omitempty"`
	Part   string `yaml:"part" json:"part,omitempty"` // which table of the article
}

// Experiment is what was done for the figures, as far as the article says.
// What it does not say is left out, and counts as not known.
type Experiment struct {
	What        string   `yaml:"what"`
	Machine     Machine  `yaml:"machine"`
	Tools       []Tool   `yaml:"tools"`
	Repetitions Count    `yaml:"repetitions"`
	Summary     Summary  `yaml:"summary"`
	Spread      []Spread `yaml:"spread"`
	Order       string   `yaml:"order"` // sequential, blocks, random; "" unknown
	Live        bool     `yaml:"live"`  // the machine served others meanwhile
	Duration    string   `yaml:"duration"`
	Payload     size     `yaml:"payload"`   // bytes of an answer's body
	Headers     size     `yaml:"headers"`   // bytes around the body: HTTP headers, TLS records
	Link        bitrate  `yaml:"link"`      // of the slowest link between client and server
	Protocols   []string `yaml:"protocols"` // that the server offers: HTTP/1.1, HTTP/2
	Client      Client   `yaml:"client"`
	Timing      []Timing `yaml:"timing"`
	Confounders []Note   `yaml:"confounders"` // what differs between rows besides the thing compared
	Unstable    []Note   `yaml:"unstable"`    // where the authors say that runs differed much
	Selected    []Note   `yaml:"selected"`    // where runs were repeated until they looked right
	// Assumed says which of the facts above the article does not give, and
	// where they come from.
	Assumed []string `yaml:"assumed"`
}

// Machine is what ran the work.
type Machine struct {
	Name   string    `yaml:"name"`
	Hz     frequency `yaml:"frequency"` // the highest that the processor reaches
	Cores  int       `yaml:"cores"`
	Memory size      `yaml:"memory"`
}

// Tool is a program that measured some of the columns, all where Columns is
// empty.
type Tool struct {
	Name     string   `yaml:"name"`
	Version  string   `yaml:"version"`
	Settings string   `yaml:"settings"` // its arguments, as published
	Columns  []string `yaml:"columns"`
}

// Summary is how a cell was made of several runs.
type Summary struct {
	Of   string  `yaml:"of"`   // mean, median, best
	Trim float64 `yaml:"trim"` // share of the runs removed at each end
}

// Spread is a published coefficient of variation, as a share.
type Spread struct {
	CV      float64  `yaml:"cv"`
	Of      string   `yaml:"of"` // what was spread: the runs of a row, all rows together
	Rows    []string `yaml:"rows"`
	Columns []string `yaml:"columns"`
}

// Client is the load generator.
type Client struct {
	CPU  string  `yaml:"cpu"`
	Busy float64 `yaml:"busy"` // share of its CPU that was used; 0 unknown
}

// Timing is how a duration was taken, as shell lines: only clocks, jobs and
// waits matter.
type Timing struct {
	Script  string   `yaml:"script"`
	Rows    []string `yaml:"rows"`
	Columns []string `yaml:"columns"`
}

// Note is a remark about some rows and columns, all where they are empty.
type Note struct {
	What    string   `yaml:"what"`
	Rows    []string `yaml:"rows"`
	Columns []string `yaml:"columns"`
}

// Column is one kind of figure.
type Column struct {
	Name   string `yaml:"name"`
	Label  string `yaml:"label"`
	Unit   string `yaml:"unit"`
	Better string `yaml:"better"` // higher or lower; "" neither
	// Formula is how the authors say that the column follows from others.
	Formula string `yaml:"formula"`
	// Role is idle where the column is the share of CPU (in %) that the
	// machine under test had left.
	Role string `yaml:"role"`
	// Includes names a column, copied from another table, whose work each operation
	// of this one includes: the same requests without encryption.
	Includes string  `yaml:"includes"`
	Limits   []Limit `yaml:"limits"`
}

// Limit is what no value of a column can exceed, in the column's unit.
type Limit struct {
	What  string  `yaml:"what"`
	Value float64 `yaml:"value"`
	// Shared means that it is a resource (a disk, a bus, memory): rows that
	// come near it are tied by it.
	Shared bool `yaml:"shared"`
}

// Row is one contender.
type Row struct {
	Name   string          `yaml:"name"`
	Label  string          `yaml:"label"`
	Values map[string]Cell `yaml:"values"`
}

// Claim is a sentence that the article rests on the table.
type Claim struct {
	Text     string   `yaml:"text"` // in the words of whoever wrote the file
	A        string   `yaml:"a"`
	B        string   `yaml:"b"`
	Among    []string `yaml:"among"` // rows that best and worst range over; all where empty
	Column   string   `yaml:"column"`
	Relation string   `yaml:"relation"`
	Ratio    float64  `yaml:"ratio"`  // with relation ratio: how many times better a is than b
	Bound    string   `yaml:"bound"`  // least, most or about (the default)
	Than     float64  `yaml:"than"`   // with above and below
	Within   float64  `yaml:"within"` // with equal: the largest share that still is
}

// relations are what a claim may say.
var relations = []string{"faster", "slower", "equal", "best", "worst", "ratio", "above", "below"}

func (t *Table) columnNamed(name string) *Column {
	if i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }); i >= 0 {
		return &t.Columns[i]
	}
	return nil
}

func (t *Table) rowNamed(name string) *Row {
	if i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == name }); i >= 0 {
		return &t.Rows[i]
	}
	return nil
}

// titleOrName is what messages call the row.
func (r *Row) titleOrName() string { return cmp.Or(r.Label, r.Name) }

func (c *Column) titleOrName() string { return cmp.Or(c.Label, c.Name) }
