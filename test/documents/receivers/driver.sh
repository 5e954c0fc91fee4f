# Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
. ./verify.sh

for folder in "$@"; do
  header() { sed -n "s/^$1: //Ip" "$folder/headers"; }
  if verify "$folder/body" "$(header webhook-id)" "$(header webhook-timestamp)" "$(header webhook-signature)" "$(cat "$folder/secret")"; then
    echo true
  else
    echo false
  fi
done
