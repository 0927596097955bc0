package agent

// Root describes a root file system that `bakeoff-agent setup` makes on a
// Linux host: an overlay over an image, with what programs expect in it.
type Root struct {
	// At is the directory where it is mounted; Lower the image, which is not
	// written to; Upper and Work are directories of one file system. They
	// exist, and all are the host's.
	At    string `json:"at"`
	Lower string `json:"lower"`
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// System asks for /proc, /sys (read-only) and a minimal /dev.
	System bool `json:"system"`
	// Dirs are made inside, with mode 1777.
	Dirs []string `json:"dirs"`
	// Binds are mounted inside.
	Binds []Bind `json:"binds"`
}

// Bind is a file or directory of the host that is seen inside a root.
type Bind struct {
	From     string `json:"from"` // on the host
	To       string `json:"to"`   // inside
	ReadOnly bool   `json:"read_only"`
}

// maxRoot bounds the description of a root, in bytes.
const maxRoot = 1 << 20
