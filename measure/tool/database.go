package tool

import "bakeoff/base/param"

// DatabaseParams are the parameters of a PostgreSQL server: package database
// brings it up.
func DatabaseParams() []param.Spec {
	return []param.Spec{
		{Name: "fsync", Kind: param.Text, Default: "on", Enum: []string{"on", "off"}, Doc: "PostgreSQL's setting " +
			"fsync"},
		{Name: "synchronous-commit", Kind: param.Text, Default: "on", Enum: []string{"on", "local", "off"},
			Doc: "PostgreSQL's setting synchronous_commit"},
		{Name: "full-page-writes", Kind: param.Text, Default: "on", Enum: []string{"on", "off"},
			Doc: "PostgreSQL's setting full_page_writes"},
		{Name: "wal-level", Kind: param.Text, Default: "replica", Enum: []string{"minimal", "replica", "logical"},
			Doc: "PostgreSQL's setting wal_level"},
		{Name: "shared-buffers", Kind: param.Size, Default: "128MiB", Min: 1 << 20, Max: 1 << 40,
			Doc: "PostgreSQL's setting shared_buffers, in whole MiB"},
		{Name: "max-connections", Kind: param.Int, Default: "100", Min: 10, Max: 10000, Doc: "PostgreSQL's setting " +
			"max_connections"},
	}
}
