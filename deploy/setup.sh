#!/bin/sh
# The people of the demo: makes up data, creates every party in its volume, exchanges the cards.
# For deploy/compose.yaml only: this container sees all volumes, as nobody does in earnest.
#
#   setup.sh HUB TRANSACTIONS BANK...
set -eu
hub=$1 transactions=$2
shift 2
volumes=/volumes
owner=10001:10001

if [ -e "$volumes/aggregator/party" ]; then
  echo "The parties exist already."
  exit 0
fi
if [ -n "$(find "$volumes" -mindepth 2 -print -quit)" ]; then
  echo "An earlier set-up was interrupted: docker compose down --volumes, and begin again." >&2
  exit 1
fi

pv4fad generate /tmp/data --transactions "$transactions" --banks $# > /dev/null
data=/tmp/data/scenario01

# keep PARTY FILE...: copies in the volume of the party that they belong to.
keep() {
  party=$1
  shift
  mkdir "$volumes/$party/data"
  cp "$@" "$volumes/$party/data"
}

# create PARTY OPTION...: its folder, with a passphrase that is drawn for it.
create() {
  party=$1
  shift
  pv4fad party init "$volumes/$party/new" --hub "$hub" \
    --key-file "$volumes/$party-secret/passphrase" "$@"
  sed -i '1i metrics = "127.0.0.1:9100"' "$volumes/$party/new/party.toml" # for this container only
}

keep payment-network "$data"/train/swift/*_train_*.csv "$data"/test/swift/*_test_*.csv
create payment-network --role payment-network --epsilon 1 \
  --data "$volumes"/payment-network/data/*_train_*.csv \
  --new-transactions "$volumes"/payment-network/data/*_test_*.csv
for bank in "$@"; do
  keep "$bank" "$data/train/$bank/bank_dataset.csv"
  create "$bank" --role bank --name "$bank" --data "$volumes/$bank/data/bank_dataset.csv" --limit 3
done
create aggregator --role aggregator
echo "listen = \"0.0.0.0:${hub##*:}\"" >> "$volumes/aggregator/new/party.toml"

for folder in "$volumes"/*/new; do
  pv4fad party join "$folder" "$volumes"/*/new/card.json > /dev/null
done
# The aggregator comes last: its folder says that all is done.
for party in payment-network "$@" aggregator; do
  sed -i "s#$volumes/$party/#../#" "$volumes/$party/new/party.toml" # where the party will find it
  chmod 700 "$volumes/$party" "$volumes/$party-secret"
  chown -R "$owner" "$volumes/$party" "$volumes/$party-secret"
  mv "$volumes/$party/new" "$volumes/$party/party"
done
