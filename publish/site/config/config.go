// Package config reads the settings of a site: plain assignments in
// config.sh.local, with the names that BSSG uses. bakeoff parses the file and never
// executes it.
package config

import (
	"time"
	_ "time/tzdata" // names of time zones, where the machine has none
)

// File is where a site keeps its settings.
const File = "config.sh.local"

// Config is the settings of a site. Folders are relative to the site.
type Config struct {
	Source, Pages, Drafts, Static, Output, Runs string

	Title, Description, URL, Author, Email string
	Fediverse                              string // the author's account, for a fediverse:creator tag

	Language  string   // of posts that name none
	Languages []string // of the site, Language first

	DateFormat string // strftime(3)
	Zone       string // "local" or a name of the time zone database
	ShowZone   bool

	PostsPerPage, FeedItems, RelatedCount, AuthorsMenu int

	FeedFull, IndexFull                                            bool
	Archives, ArchivesList, Tags, TagFeeds, Authors, AuthorFeeds   bool
	Related, Search, Precompress, Responsive, RawHTML, ShowUpdated bool
	RunIndex                                                       bool // publish all runs of Runs, with an index

	FeedFile, SlugFormat, PageFormat, Theme, CSS string

	Deploy []string // argument vector of `bakeoff site deploy`
}

// Default returns the settings of a site without a file.
func Default() Config {
	return Config{
		Source: "src", Pages: "pages", Drafts: "drafts", Static: "static", Output: "output", Runs: "runs",
		Title: "My Journal", Description: "A personal journal", URL: "http://localhost:8000", Author: "Anonymous",
		Language: "en", DateFormat: "%Y-%m-%d %H:%M:%S", Zone: "local",
		PostsPerPage: 10, FeedItems: 15, RelatedCount: 3, AuthorsMenu: 2,
		Archives: true, Tags: true, TagFeeds: true, Authors: true, Related: true, Search: true, Responsive: true,
		ShowUpdated: true, RunIndex: true,
		FeedFile: "rss.xml", SlugFormat: "Year/Month/Day/slug", PageFormat: "slug", Theme: "default",
	}
}

// Location returns the zone in which dates without one are read, and all are shown.
func (c Config) Location() (*time.Location, error) {
	if c.Zone == "local" {
		return time.Local, nil
	}
	return time.LoadLocation(c.Zone)
}
