package config

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"bakeoff/base/safetext"
)

// settings maps the names of the file to what sets them.
func (c *Config) settings(site string) map[string]func([]string) error {
	return map[string]func([]string) error{
		"SRC_DIR": folderSetting(&c.Source, site), "PAGES_DIR": folderSetting(&c.Pages, site),
		"DRAFTS_DIR": folderSetting(&c.Drafts, site), "STATIC_DIR": folderSetting(&c.Static, site),
		"OUTPUT_DIR": folderSetting(&c.Output, site), "RUNS_DIR": folderSetting(&c.Runs, site),

		"SITE_TITLE": lineSetting(&c.Title), "SITE_DESCRIPTION": lineSetting(&c.Description), "SITE_URL": address(&c.URL),
		"AUTHOR_NAME": lineSetting(&c.Author), "AUTHOR_EMAIL": lineSetting(&c.Email),
		"FEDIVERSE_CREATOR": lineSetting(&c.Fediverse),
		"SITE_LANG":         language(&c.Language), "SITE_LANGS": languages(&c.Languages),

		"DATE_FORMAT": lineSetting(&c.DateFormat), "TIMEZONE": lineSetting(&c.Zone), "SHOW_TIMEZONE": boolean(&c.ShowZone),
		"POSTS_PER_PAGE": countSetting(&c.PostsPerPage, 1, 1000), "RSS_ITEM_LIMIT": countSetting(&c.FeedItems, 1, 1000),
		"RELATED_POSTS_COUNT":         countSetting(&c.RelatedCount, 0, 50),
		"SHOW_AUTHORS_MENU_THRESHOLD": countSetting(&c.AuthorsMenu, 0, 1000),
		"RSS_INCLUDE_FULL_CONTENT":    boolean(&c.FeedFull),
		"INDEX_SHOW_FULL_CONTENT":     boolean(&c.IndexFull),
		"ENABLE_ARCHIVES":             boolean(&c.Archives),
		"ARCHIVES_LIST_ALL_POSTS":     boolean(&c.ArchivesList),
		"ENABLE_TAGS":                 boolean(&c.Tags),
		"ENABLE_TAG_RSS":              boolean(&c.TagFeeds),
		"ENABLE_AUTHOR_PAGES":         boolean(&c.Authors),
		"ENABLE_AUTHOR_RSS":           boolean(&c.AuthorFeeds),
		"ENABLE_RELATED_POSTS":        boolean(&c.Related),
		"ENABLE_RUN_INDEX":            boolean(&c.RunIndex),
		"ENABLE_SEARCH":               boolean(&c.Search),
		"ENABLE_RESPONSIVE_IMAGES":    boolean(&c.Responsive),
		"PRECOMPRESS_ASSETS":          boolean(&c.Precompress),
		"SHOW_LASTMOD":                boolean(&c.ShowUpdated),
		"RAW_HTML":                    boolean(&c.RawHTML),
		"RSS_FILENAME":                fileSetting(&c.FeedFile),
		"URL_SLUG_FORMAT":             pattern(&c.SlugFormat),
		"PAGE_URL_FORMAT":             pattern(&c.PageFormat),
		"THEME":                       lineSetting(&c.Theme),
		"CUSTOM_CSS":                  lineSetting(&c.CSS),
		"DEPLOY_COMMAND":              listSetting(&c.Deploy),
		"DEPLOY_SCRIPT":               scriptSetting(&c.Deploy),
	}
}

// unused are names that BSSG reads and that mean nothing here.
var unused = []string{"TEMPLATES_DIR", "THEMES_DIR", "LOCALE_DIR", "CACHE_DIR", "CLEAN_OUTPUT", "REBUILD_AFTER_POST",
	"REBUILD_AFTER_EDIT", "MARKDOWN_PROCESSOR", "MARKDOWN_PL_PATH", "DEPLOY_AFTER_BUILD", "BUILD_MODE",
	"BSSG_SERVER_PORT_DEFAULT", "BSSG_SERVER_HOST_DEFAULT", "RAM_MODE_VERBOSE", "PREVIEW_DIR", "REL_ME_URL",
	"ENABLE_PARALLEL", "BACKUP_DIR", "CONFIG_FILE", "PRECOMPRESS_MIN_BYTES", "DEBUG"}

func oneValue(values []string) (string, error) {
	if len(values) != 1 {
		return "", fmt.Errorf("takes one value, not a list")
	}
	return values[0], nil
}

func lineSetting(to *string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err == nil {
			*to = safetext.Line(v)
		}
		return err
	}
}

// folderSetting takes a folder inside of the site: nothing outside of it is read or written.
// BSSG writes absolute names; those below the site become relative.
func folderSetting(to *string, site string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		clean := path.Clean(v)
		if inside, ok := strings.CutPrefix(clean, strings.TrimSuffix(site, "/")+"/"); ok && site != "" {
			clean = inside
		}
		if v == "" || clean == "." || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
			return fmt.Errorf("must be a folder inside of the site (got %q)", v)
		}
		*to = clean
		return nil
	}
}

func address(to *string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		u, err := url.Parse(v)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" ||
			u.Fragment != "" {
			return fmt.Errorf("must be an address such as https://example.com (got %q)", v)
		}
		*to = strings.TrimRight(u.String(), "/")
		return nil
	}
}

func boolean(to *bool) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		switch strings.ToLower(v) {
		case "true", "yes", "1":
			*to = true
		case "false", "no", "0", "":
			*to = false
		default:
			return fmt.Errorf("must be true or false (got %q)", v)
		}
		return nil
	}
}

func countSetting(to *int, lo, hi int) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("must be a number from %d to %d (got %q)", lo, hi, v)
		}
		*to = n
		return nil
	}
}

func language(to *string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		if !isLanguage(v) {
			return fmt.Errorf("must be a language such as en or pt (got %q)", v)
		}
		*to = v
		return nil
	}
}

func languages(to *[]string) func([]string) error {
	return func(values []string) error {
		*to = nil
		for _, v := range values {
			for _, name := range strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' }) {
				if !isLanguage(name) {
					return fmt.Errorf("must be languages such as \"en it\" (got %q)", name)
				}
				*to = append(*to, name)
			}
		}
		return nil
	}
}

func isLanguage(s string) bool {
	outside := func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }
	return len(s) >= 2 && len(s) <= 12 && strings.IndexFunc(s, outside) < 0 && s[0] != '-'
}

func fileSetting(to *string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		outside := func(r rune) bool {
			return !(r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
		}
		if v == "" || strings.HasPrefix(v, ".") || strings.IndexFunc(v, outside) >= 0 {
			return fmt.Errorf("must be a file name such as rss.xml (got %q)", v)
		}
		*to = v
		return nil
	}
}

// pattern takes a format of addresses: words of BSSG and plain names, with slashes.
func pattern(to *string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil {
			return err
		}
		clean := strings.Trim(v, "/")
		for _, part := range strings.Split(clean, "/") {
			if fileSetting(new(string))([]string{part}) != nil {
				return fmt.Errorf("must be a format such as Year/Month/Day/slug (got %q)", v)
			}
		}
		if !strings.Contains(clean, "slug") {
			return fmt.Errorf("must contain slug (got %q)", v)
		}
		*to = clean
		return nil
	}
}

func listSetting(to *[]string) func([]string) error {
	return func(values []string) error {
		if len(values) == 0 || values[0] == "" {
			return fmt.Errorf(`must be a list such as (rsync -a output/ host:/www/)`)
		}
		*to = values
		return nil
	}
}

// scriptSetting takes BSSG's script, unless DEPLOY_COMMAND was set.
func scriptSetting(to *[]string) func([]string) error {
	return func(values []string) error {
		v, err := oneValue(values)
		if err != nil || v == "" || len(*to) > 0 {
			return err
		}
		if !strings.Contains(v, "/") {
			v = "./" + v
		}
		*to = []string{v}
		return nil
	}
}
