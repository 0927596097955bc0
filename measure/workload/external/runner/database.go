package runner

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"path"
	"strings"

	"bakeoff/measure/database"
	"bakeoff/measure/tool"
)

// database is the PostgreSQL of the tool's volume.
func (s *site) database(at *tool.Place) (*database.Server, error) {
	d, err := database.New(s.conn, s.params, path.Dir(s.known.Program), at.Data, s.target.Subject.Info().Scratch, at.UID)
	if err != nil {
		return nil, err
	}
	at.Host, at.Port, at.User = d.Socket(), database.Port, database.User
	// One database per cell, because the cells may differ in its content.
	at.Database = fmt.Sprintf("bench%08x", crc32.ChecksumIEEE([]byte(strings.Join(s.params.Args(), "\n"))))
	return d, nil
}

// startDatabase starts the server, creates the tool's database in it, and
// records its settings in the facts.
func (s *site) startDatabase(ctx context.Context, at *tool.Place) error {
	d, err := s.database(at)
	if err != nil {
		return err
	}
	facts, err := d.Start(ctx)
	if err != nil {
		return err
	}
	maps.Copy(s.known.Facts, facts)
	if there, err := d.Has(ctx, at.Database); err != nil || there {
		return err
	}
	_, err = d.SQL(ctx, "postgres", "CREATE DATABASE "+at.Database)
	return err
}
