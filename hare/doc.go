// Package hare is an ORM-style query layer: models are plain structs, a QuerySet reads and writes them, and
// transactions (package transactions) reach over several databases.
//
// A program imports the backends that it uses, opens its connections once and makes a queryset for each model:
//
//	import (
//		"github.com/hare-go/hare/hare"
//		_ "github.com/hare-go/hare/backends/postgres"
//	)
//
//	var Loans = hare.Objects[Loan]()
//
//	cfg, err := hare.LoadConfig("hare.yml")
//	...
//	conns, err := hare.Open(ctx, cfg)
//	...
//	defer conns.Close()
//	hare.SetDefault(conns)
//	loans, err := Loans.Filter(query.Q("reader_id", 7)).OrderBy("-lent_at").Limit(10).All(ctx)
//
// Errors come in two families that never mix. The call is wrong: [QueryError], [FieldError], [ConfigurationError],
// [ValidationError] and features.UnsupportedError are raised before anything is sent. The database refused:
// [DatabaseError] and its kinds.
package hare
